"""Stories set line by line with ReportLab, for what other producers than typst and WeasyPrint draw."""

from __future__ import annotations

import io
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
import pyphen
from reportlab.lib.pagesizes import A4
from reportlab.pdfbase.pdfmetrics import registerFont, stringWidth
from reportlab.pdfbase.ttfonts import TTFont
from reportlab.pdfgen.canvas import Canvas

from tests.documents.known.story import Block, Run, Story

DEJAVU = "DejaVuSerif"
for _name in (DEJAVU, f"{DEJAVU}-Bold"):
    registerFont(TTFont(_name, str(Path(matplotlib.get_data_path()) / f"fonts/ttf/{_name}.ttf")))
_BOLD = {"Times-Roman": "Times-Bold", "Courier": "Courier-Bold", DEJAVU: f"{DEJAVU}-Bold"}
_SYLLABLES = pyphen.Pyphen(lang="en_US")
_ACCENTS = {"\u0301": "´", "\u0308": "¨", "\u0303": "~", "\u0300": "`", "\u0302": "^"}


class Word(NamedTuple):
    """A word in a style, with the number of its note."""

    text: str
    style: str = ""
    note: int = 0


Line = list[Word]


@dataclass
class Look:
    """How a sheet is set; measures in points.

    `frames`: the left ends and the widths of the columns, drawn line by line across all columns if `by_rows`. `hyphen`
    ends the lines that divide words; "" divides none. `draw`: "lines", or by themselves "tight" words, or letters and
    "accents". `late`: headings, drop caps, line numbers and marks of notes end a page. `turned`: degrees. `decorate`
    draws what is around the text of each page.
    """

    font: str = "Times-Roman"
    size: float = 10.5
    leading: float = 13
    page: tuple[float, float] = A4
    frames: Sequence[tuple[float, float]] = ((72, 451),)
    top: float = 760
    hyphen: str = "-"
    justified: bool = True
    draw: str = "lines"
    by_rows: bool = False
    late: bool = False
    line_numbers: bool = False
    drop_caps: bool = False
    turned: int = 0
    decorate: Callable[[Sheet], object] = lambda sheet: None


@dataclass
class Sheet:
    """A document under construction; lines go down the frames of a page, and then to the next page."""

    look: Look
    number: int = 0
    notes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._data = io.BytesIO()
        self.canvas: Any = Canvas(self._data, pagesize=self.look.page, invariant=1)
        self._begin()

    def _begin(self) -> None:
        self.number += 1
        self._frame, self.y, self._foot, self._counted = 0, self.look.top, 80.0, 0
        self._lines: list[tuple[int, float, Callable[[], object]]] = []
        self._later: list[Callable[[], object]] = []
        self._below: list[Line] = []
        if self.look.turned:
            self.canvas.setPageRotation(self.look.turned)
            self.canvas.translate(self.look.page[1], 0)
            self.canvas.rotate(self.look.turned)
        self.look.decorate(self)

    def _end(self) -> None:
        if self.look.by_rows:
            self._lines.sort(key=lambda line: (-line[1], line[0]))
        for _, _, draw in self._lines:
            draw()
        y = self._foot - self.look.leading
        for line in self._below:
            self._draw(self.look.frames[0][0], y, line, 0, self.look.font, self.look.size - 2)
            y -= self.look.leading - 2
        for draw in self._later:
            draw()
        self.canvas.showPage()

    def data(self) -> bytes:
        self._end()
        self.canvas.save()
        return self._data.getvalue()

    def _next_frame(self) -> None:
        if self._frame + 1 < len(self.look.frames):
            self._frame, self.y = self._frame + 1, self.look.top
        else:
            self._end()
            self._begin()

    def _room(self, lines: float) -> tuple[float, float]:
        """The frame in which there is room for lines."""
        if self.y < self._foot + lines * self.look.leading:
            self._next_frame()
        return self.look.frames[self._frame]

    def text(self, x: float, y: float, text: str, size: float = 0, font: str = "") -> float:
        """Draw a text at a place; where it ends."""
        font, size = font or self.look.font, size or self.look.size
        self.canvas.setFont(font, size)
        self.canvas.drawString(x, y, text)
        return x + float(stringWidth(text, font, size))

    def _queue(self, y: float, draw: Callable[[], object], *, late: bool = False) -> None:
        """Draw with the lines of the page, or what may be late at its end."""
        if late and self.look.late:
            self._later.append(draw)
        else:
            self._lines.append((self._frame, y, draw))

    # Lines

    def wrap(self, words: Line, width: float, size: float = 0, font: str = "", first: float = 0) -> Iterator[Line]:
        """Lines of at most a width; the first two are by `first` narrower."""
        font, size = font or self.look.font, size or self.look.size
        line, rest, number = Line(), list(words), 0
        space = stringWidth(" ", font, size)
        while rest:
            word = rest.pop(0)
            room = width - (first if number < 2 else 0) - sum(stringWidth(w.text, font, size) + space for w in line)
            if stringWidth(word.text, font, size) <= room:
                line.append(word)
                continue
            head, tail = self._divided(word.text, room, font, size)
            if head:
                line.append(word._replace(text=head, note=0))
            rest[:0] = [word._replace(text=tail)]
            yield line or [rest.pop(0)]
            line, number = [], number + 1
        yield line

    def _divided(self, word: str, room: float, font: str, size: float) -> tuple[str, str]:
        core = word.strip("“”.,;:()")
        places = [(at + 1, "") for at, letter in enumerate(word[:-1]) if letter == "-" and at > 1]
        if self.look.hyphen and core.isalpha() and core.islower():
            places += [(word.find(core) + at, self.look.hyphen) for at in _SYLLABLES.positions(core)]
        for at, hyphen in sorted(places, reverse=True):
            if stringWidth(word[:at] + hyphen, font, size) <= room:
                return word[:at] + hyphen, word[at:]
        return "", word

    def set(
        self, lines: Sequence[Line], left: float = 0, size: float = 0, font: str = "", *, plain: bool = False
    ) -> None:
        """Put lines below each other; the last one is not justified, and those that are `plain` are not."""
        look, font, size = self.look, font or self.look.font, size or self.look.size
        for at, line in enumerate(lines):
            notes = [words_of(f"{word.note} {self.notes[word.note - 1]}") for word in line if word.note]
            below = [one for note in notes for one in self.wrap(note, 440, look.size - 2)]
            need = len(below) * (look.leading - 2) + (6 if below and not self._below else 0)
            x, width = self._room(1 + need / look.leading)
            self._below += below
            self._foot += need
            last = at == len(lines) - 1 or plain or not look.justified
            draw = partial(self._draw, x + left, self.y, line, 0 if last else width - left, font, size)
            if look.line_numbers:
                self._counted += 1
                self._queue(self.y, partial(self.text, x - 24, self.y, str(self._counted)), late=True)
            self._queue(self.y, draw, late=size > look.size)
            self.y -= look.leading * (1 if look.line_numbers else max(size / look.size, 1))

    def _draw(self, x: float, y: float, words: Line, width: float, font: str, size: float) -> None:
        space = stringWidth(" ", font, size) if self.look.draw != "tight" else 0.13 * size
        if width and len(words) > 1:
            inked = sum(stringWidth(word.text, font, size) for word in words)
            marks = sum(stringWidth(str(word.note), font, size * 0.65) for word in words if word.note)
            space = max((width - inked - marks) / (len(words) - 1), 0.5 * space)
        usual = space - stringWidth(" ", font, size)
        run: list[str] = []
        for word in [*words, None]:
            if run and (word is None or word.style or word.note or self.look.draw != "lines"):
                self.canvas.setFont(font, size)
                self.canvas.drawString(x, y, " ".join(run), wordSpace=usual)
                x += stringWidth(" ".join(run), font, size) + (len(run) - 1) * usual + space
                run = []
            if word and not (word.style or word.note or self.look.draw == "accents"):
                run.append(word.text)
            elif word:
                x = self._styled(x, y, word, font, size)
                if word.note:
                    draw = partial(self.text, x, y + 0.35 * size, str(word.note), 0.65 * size)
                    self._later.append(draw) if self.look.late else draw()
                    x += stringWidth(str(word.note), font, size * 0.65)
                x += space

    def _styled(self, x: float, y: float, word: Word, font: str, size: float) -> float:
        """Draw a word in a style; where it ends."""
        if word.style == "spaced":
            for letter in word.text:
                x = self.text(x, y, letter, size, font) + 0.28 * size
            return x - 0.28 * size
        if word.style == "bold":  # struck twice, by drivers without bold type
            self.text(x + 0.35, y, word.text, size, font)
            return self.text(x, y, word.text, size, font)
        if self.look.draw == "accents":  # before the letters below them, as TeX does
            for letter in word.text:
                base, *marks = list(unicodedata.normalize("NFD", letter))
                if accent := _ACCENTS.get("".join(marks)):
                    over = (stringWidth(base, font, size) - stringWidth(accent, font, size)) / 2
                    self.text(x + over, y + (0.2 * size if base.isupper() else 0), accent, size, font)
                x = self.text(x, y, base if accent else letter, size, font)
            return x
        return self.text(x, y, word.text, size, font)

    # Blocks

    def story(self, story: Story) -> Sheet:
        for block in story.blocks:
            self._block(block)
            self.y -= 0 if self.look.line_numbers else 6  # numbered lines stand in a grid
        return self

    def _block(self, block: Block) -> None:
        look, bold = self.look, _BOLD[self.look.font]
        if block.kind == "heading":
            _, width = self._room(5)
            self.y -= 0 if look.line_numbers else 8
            lines = list(self.wrap(words_of(block.text), width, look.size + 3, bold))
            self.set(lines, 0, look.size + 3, bold, plain=True)
        elif block.kind == "side":
            (x, _), y = self._room(5), self.y
            for line in self.wrap(words_of(block.text), 88, look.size - 1, bold):
                said = " ".join(word.text for word in line)
                self._queue(y, partial(self.text, x - 100, y, said, look.size - 1, bold), late=True)
                y -= look.leading
        elif block.kind == "table":
            self._table(block.rows)
        else:
            self._paragraph(self._words(block.runs), 30 if block.kind == "quote" else 0)

    def _words(self, runs: Sequence[Run]) -> Line:
        words: Line = []
        for run in runs:
            words += [Word(text, run.style) for text in run.text.split()]
            if run.note:
                self.notes.append(run.note)
                words[-1] = words[-1]._replace(note=len(self.notes))
        return words

    def _paragraph(self, words: Line, left: float) -> None:
        look, (x, width) = self.look, self._room(5 if self.look.drop_caps else 1)
        if not look.drop_caps:
            self.set(list(self.wrap(words, width - left)), left)
            return
        letter, size = words[0].text[0], 2.6 * look.size
        self._queue(self.y, partial(self.text, x, self.y - look.leading, letter, size), late=True)
        indent = stringWidth(letter, look.font, size) + 3
        lines = list(self.wrap([Word(words[0].text[1:]), *words[1:]], width, first=indent))
        self.set(lines[:2], indent, plain=True)
        self.set(lines[2:])

    def _table(self, rows: Sequence[Sequence[str]]) -> None:
        """A table whose figures end at the right, and whose head every page repeats."""
        look, size = self.look, self.look.size - 1
        self._room(4)
        for cells in rows:
            if self.y < self._foot + 3 * look.leading:
                self._next_frame()
                self._row(rows[0], size)
            self._row(cells, size)

    def _row(self, cells: Sequence[str], size: float) -> None:
        look, (x, width) = self.look, self.look.frames[self._frame]
        step = width / len(cells)
        wrapped = [
            [" ".join(word.text for word in line) for line in self.wrap(words_of(c), step - 8, size)] for c in cells
        ]
        height = max(map(len, wrapped))
        for at, lines in enumerate(wrapped):
            y = self.y - (height - len(lines)) * look.leading / 2  # in the middle of a row of several lines
            for line in filter(None, lines):
                room = step - 8 - stringWidth(line, look.font, size)
                self.text(x + at * step + (room if at and height == 1 else 0), y, line, size)
                y -= look.leading
        self.y -= height * look.leading


def words_of(text: str) -> Line:
    return [Word(word) for word in text.split()]
