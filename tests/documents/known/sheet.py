"""Stories set line by line with ReportLab, for what other producers than typst and WeasyPrint draw."""

from __future__ import annotations

import io
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
import pyphen
from reportlab.lib.pagesizes import A4
from reportlab.pdfbase.pdfmetrics import registerFont, stringWidth
from reportlab.pdfbase.ttfonts import TTFont
from reportlab.pdfgen.canvas import Canvas

from tests.documents.known.story import Block, Run, Story

_FONTS = Path(matplotlib.get_data_path()) / "fonts/ttf"
DEJAVU = "DejaVuSerif"
registerFont(TTFont(DEJAVU, str(_FONTS / "DejaVuSerif.ttf")))
registerFont(TTFont(f"{DEJAVU}-Bold", str(_FONTS / "DejaVuSerif-Bold.ttf")))
_BOLD = {"Times-Roman": "Times-Bold", "Helvetica": "Helvetica-Bold", "Courier": "Courier-Bold"}
_SYLLABLES = pyphen.Pyphen(lang="en_US")
_ACCENTS = {"\u0301": "´", "\u0308": "¨", "\u0303": "~", "\u0300": "`", "\u0302": "^"}


class Word(NamedTuple):
    text: str
    style: str = ""
    note: int = 0


Line = list[Word]
Frame = tuple[float, float]
"""The left end of a column and its width, in points."""


@dataclass
class Look:
    """How a sheet is set.

    `hyphen` ends the lines that divide words; "" divides none. `draw`: how words are drawn, see `Sheet`. `late`: what
    is drawn at the end of a page: "marks", "sides", "numbers" or "caps".
    """

    font: str = "Times-Roman"
    size: float = 10.5
    leading: float = 13
    page: tuple[float, float] = A4
    frames: Sequence[Frame] = ((72, 451),)
    top: float = 760
    foot: float = 80
    hyphen: str = "-"
    justified: bool = True
    draw: str = "lines"
    by_rows: bool = False
    late: frozenset[str] = frozenset()
    line_numbers: bool = False
    drop_caps: bool = False
    rules: bool = False
    centred: bool = False
    turned: int = 0
    decorate: Callable[[Sheet], None] = lambda sheet: None


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
        self._frame, self.y, self._foot = 0, self.look.top, self.look.foot
        self._lines: list[tuple[int, float, float, Line, float, str, float]] = []
        self._later: list[Callable[[], None]] = []
        self._below: list[list[Line]] = []
        self._counted = 0
        if self.look.turned:
            self.canvas.setPageRotation(self.look.turned)
            self.canvas.translate(self.look.page[0], 0)
            self.canvas.rotate(self.look.turned)
        self.look.decorate(self)

    def _end(self) -> None:
        order = sorted(self._lines, key=lambda line: (-line[2], line[0])) if self.look.by_rows else self._lines
        for _, x, y, words, width, font, size in order:
            self._draw(x, y, words, width, font, size)
        y = self._foot - self.look.leading
        for lines in self._below:
            for line in lines:
                self._draw(self.look.frames[0][0], y, line, 0, self.look.font, self.look.size - 2)
                y -= self.look.leading - 2
        for draw in self._later:
            draw()
        self.canvas.showPage()

    def data(self) -> bytes:
        self._end()
        self.canvas.save()
        return self._data.getvalue()

    def next_page(self) -> None:
        self._end()
        self._begin()

    def text(self, x: float, y: float, text: str, size: float = 0, font: str = "") -> None:
        """Draw a text at a place."""
        self.canvas.setFont(font or self.look.font, size or self.look.size)
        self.canvas.drawString(x, y, text)

    # Lines

    def wrap(self, words: Sequence[Word], width: float, font: str, size: float, first: float = 0, short: int = 0) -> Iterator[Line]:
        """Lines of at most a width; the first `short` ones are by `first` narrower."""
        line: Line = []
        rest, number = list(words), 0
        space = stringWidth(" ", font, size)
        while rest:
            word = rest.pop(0)
            room = width - (first if number < short else 0) - sum(stringWidth(w.text, font, size) + space for w in line)
            if stringWidth(word.text, font, size) <= room:
                line.append(word)
                continue
            head, tail = self._divided(word.text, room, font, size)
            if head:
                line.append(word._replace(text=head, note=0))
                word = word._replace(text=tail)
            if not line:
                line, word = [word], Word("")
            yield line
            line, number = [], number + 1
            if word.text:
                rest.insert(0, word)
        yield line

    def _divided(self, word: str, room: float, font: str, size: float) -> tuple[str, str]:
        sign = self.look.hyphen
        core = word.strip("“”.,;:()")
        start = word.find(core)
        places = [(at + 1, "") for at, letter in enumerate(word[:-1]) if letter == "-" and at > 1]
        if sign and core.isalpha() and core.islower():
            places += [(start + at, sign) for at in _SYLLABLES.positions(core)]
        for at, hyphen in sorted(places, reverse=True):
            if stringWidth(word[:at] + hyphen, font, size) <= room:
                return word[:at] + hyphen, word[at:]
        return "", word

    def set(self, lines: Sequence[Line], *, left: float = 0, font: str = "", size: float = 0, plain: bool = False) -> None:
        """Put lines below each other; the last one is not justified."""
        font, size = font or self.look.font, size or self.look.size
        for at, line in enumerate(lines):
            notes = [word.note for word in line if word.note]
            below = [list(self.wrap(words_of(f"{n} {self.notes[n - 1]}"), 440, self.look.font, self.look.size - 2)) for n in notes]
            need = sum(map(len, below)) * (self.look.leading - 2) + (6 if below and not self._below else 0)
            if self.y - need < self._foot + self.look.leading:
                self._next_frame()
            self._below += below
            self._foot += need
            x, width = self.look.frames[self._frame]
            last = at == len(lines) - 1 or plain or not self.look.justified
            self._lines.append((self._frame, x + left, self.y, line, 0 if last else width - left, font, size))
            if self.look.line_numbers and line:
                self._counted += 1
                self._numbered(self._counted, x - 24, self.y)
            self.y -= self.look.leading * max(size / self.look.size, 1)

    def _numbered(self, number: int, x: float, y: float) -> None:
        if "numbers" in self.look.late:
            self._later.append(lambda: self.text(x, y, str(number)))
        else:
            self.text(x, y, str(number))

    def _next_frame(self) -> None:
        if self._frame + 1 < len(self.look.frames):
            self._frame, self.y = self._frame + 1, self.look.top
        else:
            self.next_page()

    def _draw(self, x: float, y: float, words: Line, width: float, font: str, size: float) -> None:
        space = stringWidth(" ", font, size)
        if width and len(words) > 1:
            inked = sum(stringWidth(word.text, font, size) for word in words)
            marks = sum(stringWidth(str(word.note), font, size * 0.65) for word in words if word.note)
            space = max((width - inked - marks) / (len(words) - 1), 0.5 * space)
        if self.look.draw == "tight":
            space = 0.13 * size
        plain: list[str] = []
        start = x

        def flush() -> None:
            if plain:
                self._put(start, y, plain, space, font, size)
                plain.clear()

        for word in words:
            if not plain:
                start = x
            if not word.style:
                plain.append(word.text)
                x += stringWidth(word.text, font, size)
            else:
                flush()
                x = self._styled(x, y, word, font, size)
            if word.note:
                flush()
                mark = str(word.note)
                draw = (lambda at, mark: lambda: self.text(at, y + 0.35 * size, mark, 0.65 * size))(x, mark)
                if "marks" in self.look.late:
                    self._later.append(draw)
                else:
                    draw()
                x += stringWidth(mark, font, size * 0.65)
            x += space
        flush()

    def _styled(self, x: float, y: float, word: Word, font: str, size: float) -> float:
        """Draw a word in a style; where it ends."""
        width = stringWidth(word.text, font, size)
        if word.style == "spaced":
            for letter in word.text:
                self.text(x, y, letter, size, font)
                x += stringWidth(letter, font, size) + 0.28 * size
            return x - 0.28 * size
        if word.style == "bold":  # struck twice, by drivers without bold type
            self.text(x, y, word.text, size, font)
            self.text(x + 0.35, y, word.text, size, font)
            return x + width
        if word.style in ("sub", "super"):
            self.text(x - 0.2 * size, y + (0.35 if word.style == "super" else -0.2) * size, word.text, 0.65 * size, font)
            return x + 0.6 * width
        self.text(x, y, word.text, size, font)
        if word.style == "struck":
            self.canvas.setLineWidth(0.6)
            self.canvas.line(x, y + 0.26 * size, x + width, y + 0.26 * size)
        return x + width

    def _put(self, x: float, y: float, words: Sequence[str], space: float, font: str, size: float) -> None:
        """Draw words by `look.draw`: whole "lines", "words" or "tight" words by themselves, or "accents" apart."""
        if self.look.draw == "lines":
            self.canvas.setFont(font, size)
            self.canvas.drawString(x, y, " ".join(words), wordSpace=space - stringWidth(" ", font, size))
            return
        for word in words:
            if self.look.draw == "accents":
                self._accented(x, y, word, font, size)
            else:
                self.text(x, y, word, size, font)
            x += stringWidth(word, font, size) + space

    def _accented(self, x: float, y: float, word: str, font: str, size: float) -> None:
        """Draw accents and the letters below them one after the other, as TeX does."""
        begun = x
        run = ""
        for letter in word:
            base, *marks = unicodedata.normalize("NFD", letter)
            if not marks or marks[0] not in _ACCENTS:
                run += letter
                continue
            self.text(begun, y, run, size, font)
            at = begun + stringWidth(run, font, size)
            accent, width = _ACCENTS[marks[0]], stringWidth(base, font, size)
            over = (width - stringWidth(accent, font, size)) / 2
            self.text(at + over, y + (0.2 * size if base.isupper() else 0), accent, size, font)
            self.text(at, y, base, size, font)
            begun, run = at + width, ""
        self.text(begun, y, run, size, font)

    # Blocks

    def story(self, story: Story) -> Sheet:
        for block in story.blocks:
            self._block(block)
        return self

    def _block(self, block: Block) -> None:
        look, (x, width) = self.look, self.look.frames[self._frame]
        if block.kind == "heading":
            if self.y < self._foot + 5 * look.leading:
                self._next_frame()
            bold = _BOLD.get(look.font, f"{look.font}-Bold")
            self.y -= 8
            self.set(list(self.wrap(words_of(block.text), width, bold, look.size + 3)), font=bold, size=look.size + 3, plain=True)
        elif block.kind == "side":
            self._side(block.text)
        elif block.kind == "items":
            for number, [text] in enumerate(block.rows, 1):
                mark = {"1": f"{number}", "a": chr(96 + number), "•": "•"}[block.marker[0]] + block.marker[1:]
                lines = list(self.wrap(words_of(text), width - 20, look.font, look.size))
                self.set([[Word(mark), *lines[0]]], plain=True)
                self.set(lines[1:], left=20, plain=True)
        elif block.kind == "table":
            self._table(block.rows)
        elif block.kind == "figure":
            self._figure(block)
        else:
            left = 30 if block.kind == "quote" else 0
            self._paragraph(self._words(block.runs), left)
        self.y -= 6

    def _words(self, runs: Sequence[Run]) -> Line:
        words: Line = []
        for run in runs:
            number = 0
            if run.note:
                self.notes.append(run.note)
                number = len(self.notes)
            own = [Word(text, run.style) for text in run.text.split()]
            if own:
                own[-1] = own[-1]._replace(note=number)
            words += own
        return words

    def _paragraph(self, words: Line, left: float) -> None:
        look, (x, width) = self.look, self.look.frames[self._frame]
        if look.drop_caps:
            self.y = self.y if self.y > self._foot + 5 * look.leading else self._foot
            letter, words = words[0].text[0], [words[0]._replace(text=words[0].text[1:]), *words[1:]]
            if self.y <= self._foot:
                self._next_frame()
            (x, _), y, size = look.frames[self._frame], self.y - look.leading, 2.6 * look.size
            draw = lambda: self.text(x, y, letter, size)  # noqa: E731
            draw() if "caps" not in look.late else self._later.append(draw)
            indent = stringWidth(letter, look.font, size) + 3
            lines = list(self.wrap(words, width, look.font, look.size, indent, 2))
            self.set(lines[:2], left=indent, plain=True)
            self.set(lines[2:])
            return
        self.set(list(self.wrap(words, width - left, look.font, look.size)), left=left)

    def _side(self, text: str) -> None:
        look, bold = self.look, _BOLD[self.look.font]
        if self.y < self._foot + 5 * look.leading:
            self._next_frame()
        x, y = look.frames[0][0] - 100, self.y
        for line in self.wrap(words_of(text), 88, bold, look.size - 1):
            said = " ".join(word.text for word in line)
            draw = (lambda y, said: lambda: self.text(x, y, said, look.size - 1, bold))(y, said)
            draw() if "sides" not in look.late else self._later.append(draw)
            y -= look.leading

    def _figure(self, block: Block) -> None:
        """A box with labels and a caption below it."""
        look, (x, width) = self.look, self.look.frames[self._frame]
        if self.y < self._foot + 140:
            self._next_frame()
        x, width = look.frames[self._frame]
        self.canvas.rect(x + 10, self.y - 70, width - 20, 70)
        for at, label in enumerate(block.rows[0]):
            self.text(x + 20 + at * width / 3, self.y - 20 - 15 * at, label, 7)
        self.y -= 70 + look.leading
        caption = list(self.wrap(words_of(f"Figure {self.number}. {block.text}"), width, look.font, look.size - 1.5))
        self.set(caption, size=look.size - 1.5, plain=True)
        self.y -= look.leading

    def _table(self, rows: Sequence[Sequence[str]]) -> None:
        """A table whose figures end at the right, and whose head every page repeats."""
        look, (x, width) = self.look, self.look.frames[self._frame]
        step = width / len(rows[0])
        size = look.size - 1

        def row(cells: Sequence[str]) -> None:
            wrapped = [[" ".join(w.text for w in line) for line in self.wrap(words_of(c), step - 8, look.font, size)] for c in cells]
            height = max(map(len, wrapped))
            for at, lines in enumerate(wrapped):
                # Short cells stand in the middle of a row of several lines.
                y = self.y - (height - len(lines)) * look.leading / 2
                for line in lines:
                    here = x + at * step
                    if look.centred:
                        here += (step - stringWidth(line, look.font, size)) / 2
                    elif at and height == 1:
                        here += step - 8 - stringWidth(line, look.font, size)
                    if line:
                        self.text(here, y, line, size)
                    y -= look.leading
            self.y -= height * look.leading
            if look.rules:
                self.canvas.line(x, self.y + look.leading - 3, x + width, self.y + look.leading - 3)

        row(rows[0])
        for cells in rows[1:]:
            if self.y < self._foot + 3 * look.leading:
                self.next_page()
                row(rows[0])
            row(cells)


def words_of(text: str) -> Line:
    return [Word(word) for word in text.split()]
