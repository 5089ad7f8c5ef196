"""A made document: its blocks, in order, and the truth about it, before a producer sets it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from tests.documents.known.prose import Prose
from tests.documents.known.score import Truth

Style = Literal["", "struck", "bold", "small caps", "spaced", "sub", "super"]
Kind = Literal["heading", "paragraph", "quote", "items", "table", "figure", "box", "side", "formula"]


class Run(NamedTuple):
    """Words in one style, and the text of the note that they bear a mark of."""

    text: str
    style: Style = ""
    note: str = ""


@dataclass
class Block:
    """A part of a document: `runs` of a text, or the `rows` of a table or a list; `level` of a heading."""

    kind: Kind
    runs: list[Run] = field(default_factory=list)
    rows: list[list[str]] = field(default_factory=list)
    level: int = 1
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
    """A document under construction, from a seed."""

    def __init__(self, seed: int) -> None:
        self.prose, self.truth = Prose(seed), Truth()
        self.random = self.prose.random
        self.blocks: list[Block] = []

    def heading(self, level: int = 1, kind: Kind = "heading") -> Story:
        title = self.prose.title()
        self.truth.heads.append(title)
        self.blocks.append(Block(kind, [Run(title)], level=level))
        return self

    def paragraph(
        self,
        sentences: int = 5,
        *,
        notes: int = 0,
        struck: int = 0,
        spaced: int = 0,
        sub: bool = False,
        kind: Kind = "paragraph",
        templates: Sequence[str] = (),
    ) -> Story:
        """Prose; `notes`: how many of its sentences bear the mark of one, `struck`: have struck words."""
        said = self.prose.paragraph(sentences, tuple(templates)) if templates else self.prose.paragraph(sentences)
        runs: list[Run] = []
        for at, sentence in enumerate(said):
            words = sentence.split(" ")
            middle = len(words) // 2
            start, end = " ".join(words[:middle]) + " ", " ".join(words[middle:]) + " "
            if at < notes:
                note = self.prose.sentence()
                self.truth.notes.append(note)
                # After a word within the sentence, or at its end.
                runs += [Run(start.rstrip(), note=note), Run(f" {end}")] if at % 2 else [Run(sentence, note=note), Run(" ")]
            elif at < struck:
                gone = self.prose.words(3, 6)
                self.truth.absent.append(gone)
                runs += [Run(start), Run(gone, "struck"), Run(f" {end}")]
            elif at < spaced:
                runs += [Run(start), Run(words[middle], "spaced"), Run(" " + " ".join(words[middle + 1 :]) + " ")]
            else:
                runs.append(Run(f"{sentence} "))
        if sub:
            for base, style, index in (("CO", "sub", "2"), ("10", "super", "6"), ("H", "sub", "2"), ("m", "super", "2")):
                runs += [Run(f"The value of {base}"), Run(index, style), Run(f" was {self.prose.figure()} then. ")]  # type: ignore[arg-type]
        self.truth.sentences += said
        self.blocks.append(Block(kind, runs))
        return self

    def items(self, marker: str, count: int = 5) -> Story:
        """A list: `marker` is a bullet, or the first number or letter with what follows it."""
        texts = [self.prose.item() for _ in range(count)]
        self.truth.items += texts
        self.blocks.append(Block("items", rows=[[text] for text in texts], marker=marker))
        return self

    def table(self, rows: int = 6, *, columns: int = 4, empty: float = 0, dots: float = 0, wrapped: bool = False) -> Story:
        """A table with a head: a name, then figures; `empty` and `dots`: the shares of such cells."""
        head = ["Station", *("Households", "Expenditure", "Share", "Vessels", "Days")[: columns - 1]]
        body = []
        for number in range(rows):
            cells = [f"{self.prose.place()} {self.random.choice('IVX')}{number}"]
            cells += [self.prose.figure() for _ in range(columns - 1)]
            if wrapped:
                cells[1] = self.prose.words(6, 9)
            for at in range(1, columns):
                chance = self.random.random()
                if chance < empty and at < columns - 1:
                    cells[at] = ""
                elif empty <= chance < empty + dots:
                    cells[at] = "..."
            body.append(cells)
        self.truth.rows += [head, *body]
        self.blocks.append(Block("table", rows=[head, *body]))
        return self

    def figure(self) -> Story:
        """A figure with labels, and its caption."""
        caption = self.prose.sentence()
        self.truth.notes.append(caption)
        labels = [self.prose.place() for _ in range(3)]
        self.blocks.append(Block("figure", [Run(caption)], rows=[labels]))
        return self

    def chapters(self, count: int, paragraphs: int = 4, **options: int) -> Story:
        """Headings with paragraphs of five sentences each."""
        for _ in range(count):
            self.heading()
            for _ in range(paragraphs):
                self.paragraph(**options)
        return self

    def known(self, producer: str, kind: str, suffix: str, data: bytes, *junk: str) -> Known:
        self.truth.junk += junk
        return Known(producer, kind, suffix, data, self.truth)
