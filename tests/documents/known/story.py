"""A made document: its blocks, in order, and the truth about it, before a producer sets it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from pypdfium2 import PdfDocument

from tests.documents.known.prose import SENTENCES, Prose
from tests.documents.known.score import Truth


class Run(NamedTuple):
    """Words in a style ("bold", "struck", "spaced", "caps", "sub", "super"), and the note that they bear a mark of."""

    text: str
    style: str = ""
    note: str = ""


@dataclass
class Block:
    """A part of a document: `runs` of a text, or the `rows` of a table or of a list with a `marker`.

    Kinds: "heading", "side" (a heading in the margin), "paragraph", "quote", "box", "items", "table", "figure".
    """

    kind: str
    runs: list[Run] = field(default_factory=list)
    rows: list[list[str]] = field(default_factory=list)
    marker: str = ""

    @property
    def text(self) -> str:
        return "".join(run.text for run in self.runs)


@dataclass
class Known:
    """A file and the truth about it; `kind` names what is drawn in it."""

    producer: str
    kind: str
    suffix: str
    data: bytes
    truth: Truth

    @property
    def name(self) -> str:
        return f"{self.producer}-{self.kind}{self.suffix}"


class Story:
    """A document from a seed; each letter of `recipe` is a block, see `_RECIPES`."""

    def __init__(self, seed: str, recipe: str = "", templates: Sequence[str] = SENTENCES) -> None:
        self.prose, self.truth, self.blocks = Prose(seed), Truth(), list[Block]()
        self._templates = templates
        for letter in recipe:
            _RECIPES[letter](self)

    def heading(self, kind: str = "heading") -> None:
        title = self.prose.title()
        self.truth.heads.append(title)
        self.blocks.append(Block(kind, [Run(title)]))

    def paragraph(self, sentences: int = 5, *, notes: int = 0, style: str = "", kind: str = "paragraph") -> None:
        """Prose; `notes`: of so many of its sentences. `style`: of some words; those that are struck are put in."""
        runs: list[Run] = []
        said = [self.prose.new(self._templates) for _ in range(sentences)]
        for at, sentence in enumerate(said):
            words = sentence.split(" ")
            start, middle, end = " ".join(words[:4]), words[4], " ".join(words[5:]) + " "
            if at < notes:
                note = self.prose.sentence()
                self.truth.notes.append(note)
                # Of every second note, the mark is within the sentence.
                texts = (f"{start} {middle}", f" {end}") if at % 2 else (sentence, " ")
                runs += [Run(texts[0], note=note), Run(texts[1])]
            elif style == "struck" and at < 2:
                gone = self.prose.words(3, 6)
                self.truth.absent.append(gone)
                runs += [Run(f"{start} "), Run(gone, style), Run(f" {middle} {end}")]
            elif style == "spaced" and at < 1:
                runs += [Run(f"{start} "), Run(middle, style), Run(f" {end}")]
            elif style and at < 1:
                runs += [Run(start, style), Run(f" {middle} {end}")]
            else:
                runs.append(Run(f"{sentence} "))
        self.truth.sentences += said
        self.blocks.append(Block(kind, runs))

    def formulas(self) -> None:
        """Prose with powers and indices."""
        self.paragraph(4)
        for base, style, index in (("CO", "sub", "2"), ("10", "super", "6"), ("H", "sub", "2"), ("m", "super", "2")):
            runs = [Run(f"The value of {base}"), Run(index, style), Run(f" was {self.prose.figure()} then. ")]
            self.blocks[-1].runs += runs

    def items(self, marker: str) -> None:
        """A list: `marker` is a bullet, or the first number or letter with what follows it."""
        texts = [self.prose.item() for _ in range(4)]
        self.truth.items += texts
        self.blocks.append(Block("items", rows=[[text] for text in texts], marker=marker))

    def table(
        self, rows: int = 9, columns: int = 5, *, empty: float = 0, dots: float = 0, wrapped: bool = False
    ) -> None:
        """A table with a head: a name, then figures; `empty` and `dots`: the shares of such cells."""
        body = [["Station", *("Households", "Expenditure", "Share", "Vessels", "Days")[: columns - 1]]]
        for number in range(rows):
            place = self.prose.place().split()[-1]
            cells = [f"{place} {self.prose.random.choice('IVX')}{number}"]
            cells += [self.prose.words(6, 9) if wrapped else self.prose.figure()]
            for at in range(2, columns):
                chance = self.prose.random.random() if at < columns - 1 else 1
                cells.append("" if chance < empty else "..." if chance < empty + dots else self.prose.figure())
            body.append(cells)
        self.truth.rows += body
        self.blocks.append(Block("table", rows=body))

    def figure(self) -> None:
        """A figure with labels, and its caption."""
        caption = self.prose.sentence()
        self.truth.notes.append(caption)
        self.blocks.append(Block("figure", [Run(caption)], rows=[[self.prose.place() for _ in range(3)]]))

    def fields(self) -> list[tuple[str, str]]:
        """Labels and values for a form."""
        found = [(f"{self.prose.place()} {at}", self.prose.name()) for at in range(5)]
        self.truth.rows += map(list, found)
        return found

    def known(self, producer: str, kind: str, suffix: str, data: bytes, *junk: str) -> Known:
        """The file; a single page shows no running heads."""
        self.truth.junk += junk if suffix != ".pdf" or len(PdfDocument(data)) > 1 else ()
        return Known(producer, kind, suffix, data, self.truth)


_P, _T, _L = Story.paragraph, Story.table, Story.items
_RECIPES: dict[str, Callable[[Story], None]] = {
    **{"h": Story.heading, "s": partial(Story.heading, kind="side"), "f": Story.figure, "m": Story.formulas},
    **{"p": _P, "1": partial(_P, notes=1), "2": partial(_P, notes=2), "3": partial(_P, notes=3)},
    **{"x": partial(_P, style="struck"), "w": partial(_P, style="spaced"), "k": partial(_P, style="caps")},
    **{"B": partial(_P, style="bold"), "q": partial(_P, kind="quote"), "b": partial(_P, kind="box")},
    **{"•": partial(_L, marker="•"), "–": partial(_L, marker="–"), "#": partial(_L, marker="1.")},
    **{"a": partial(_L, marker="a)"), "i": partial(_L, marker="(i)"), "t": _T, "c": partial(_T, rows=6, columns=3)},
    **{"e": partial(_T, empty=0.25), "d": partial(_T, dots=0.4), "T": partial(_T, rows=80)},
    "v": partial(_T, rows=7, columns=4, wrapped=True),
}
"""h heading, s in the margin, f figure, m formulas, p paragraph, 1 to 3 with notes, x struck, w spaced, k small
capitals, B bold, q quote, b box, •–#ai lists, t table, c narrow, e with empty cells, d dots, T long, v wrapped."""
