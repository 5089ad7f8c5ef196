"""The results of parsers: pages of lines, or sections, each a sequence of headings, paragraphs and rows of tables.

A section begins at a heading (several headings in a row begin one together) or where a new file begins, as in an
EPUB. It is to structured formats what a page is to a PDF: the place that is cited.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import count, islice
from typing import Literal

from specextend_cli.documents.document import Edit
from specextend_cli.documents.layout import Outline
from specextend_cli.documents.line import EMPTY_CELL, Line

ItemKind = Literal["heading", "paragraph", "row", "plain", "quote", "markdown"]

MAX_CHARACTERS = 32_000_000
MAX_SECTIONS = 20_000
MAX_COLUMNS = 200
REPEATED = 60  # characters; a longer cell is not repeated
_LABEL = 60  # characters; a longer cell alone in its row is text, whatever its column
_TITLE = 160
_SPACE = re.compile(r"[ \r\f\v]+")


class TooMuchError(Exception):
    """More text, or more sections, than a document may have."""


@dataclass(slots=True)
class Section:
    """One section: (kind, text) items in order, its headings as `title`, and `failed`: why it could not be read.

    A "row" is a list item or a table row: adjacent rows stay together. "plain" is text as typed, with its line and
    page breaks, a "quote" is such a text that a mail quotes, and "markdown" begins with its heading.
    """

    title: str = ""
    items: list[tuple[ItemKind, str]] = field(default_factory=list)
    failed: str = ""


@dataclass(frozen=True, slots=True)
class Cell:
    """The text of a cell, and the number of columns and rows it spans."""

    text: str
    columns: int = 1
    rows: int = 1


class Table:
    """Rows are added one by one; `lines` returns those since its last call, with tabs between cells.

    An empty cell before others is a dash. Short cells that span rows or columns are repeated in each of them.

    Without `repeat_columns` a cell over several columns is written once, and the others have nothing, not even a dash.
    """

    def __init__(self, *, repeat_columns: bool = True) -> None:
        self._repeat_columns = repeat_columns
        self._rows: list[dict[int, str | None]] = []  # None: part of the cell before
        self._used: set[int] = set()
        self._spanning: dict[int, tuple[int, str]] = {}  # column: (further rows, text)

    def add(self, cells: list[Cell]) -> None:
        """The next row: each cell takes the first column without a cell that spans rows."""
        row: dict[int, str | None] = {}
        spanning: dict[int, tuple[int, str]] = {}
        free = (column for column in count() if column not in self._spanning)
        for cell in cells:
            repeated = cell.text if len(cell.text) <= REPEATED else ""
            columns = list(islice(free, max(min(cell.columns, MAX_COLUMNS), 1)))
            inside = [column for column in columns if column < MAX_COLUMNS]
            row |= dict.fromkeys(inside, repeated if self._repeat_columns else None) | {columns[0]: cell.text}
            if cell.text:
                self._used.add(columns[0])
            if cell.rows > 1:
                spanning |= dict.fromkeys(inside, (cell.rows - 1, repeated))
        if len({text for text in row.values() if text}) > 1 or not any(cell.columns > 1 for cell in cells):
            row |= {column: text for column, (_, text) in self._spanning.items()}
        else:
            row = dict([next(((at, text) for at, text in row.items() if text), (0, ""))])  # a title between the rows
        self._spanning = {column: (left - 1, text) for column, (left, text) in self._spanning.items() if left > 1}
        self._spanning |= spanning
        self._rows.append(row)

    def lines(self) -> list[str]:
        """The rows so far, without columns that are empty in all of them."""
        place = {column: at for at, column in enumerate(sorted(self._used))}
        made = [_line({place[column]: text for column, text in row.items() if column in place}) for row in self._rows]
        self._rows.clear()
        self._used.clear()
        return [line for line in made if line]


def _line(row: dict[int, str | None]) -> str:
    filled = {at: text for at, text in row.items() if text}
    if not filled:
        return ""
    if len(filled) == 1 and len(text := next(iter(filled.values()))) > _LABEL:
        return text
    cells = (row.get(at, "") for at in range(max(filled) + 1))
    return "\t".join(text or EMPTY_CELL for text in cells if text is not None)


@dataclass(slots=True)
class Result:
    """A parsed file: `edits` are what was left out and repairs made while reading, `warnings` are for the user.

    `unread` counts parts that were not read, among them `scanned` pages with a text that is read: what these say is in
    a picture, or in fonts without meaning.
    """

    kind: str
    title: str = ""
    edits: list[Edit] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    unread: int = 0
    scanned: tuple[int, ...] = ()
    unit: Literal["page", "section"] = "section"


@dataclass(slots=True)
class Paged(Result):
    """A parsed file with pages: the lines of a PDF, or the texts between form feeds. All numbers are 1-based.

    `requested` are the pages to be kept. `pages` may hold a few more, as running heads are recognized by repetition.
    `labels` are the page labels ("iv", "A-1") that differ from the numbers. `failed` pages could not be read, by page
    why.
    """

    unit: Literal["page", "section"] = "page"
    requested: tuple[int, ...] = ()
    pages: dict[int, list[Line]] = field(default_factory=dict)
    outline: Outline = ()
    labels: dict[int, str] = field(default_factory=dict)
    failed: dict[int, str] = field(default_factory=dict)

    @property
    def characters(self) -> int:
        """The size of the text."""
        return sum(len(line.text) for page in self.pages.values() for line in page)


@dataclass(slots=True)
class Parsed(Result):
    """A parsed file with sections."""

    sections: list[Section] = field(default_factory=list)

    @property
    def requested(self) -> range:
        """The numbers of its sections."""
        return range(1, len(self.sections) + 1)

    @property
    def failed(self) -> dict[int, str]:
        """Why sections could not be read, by number."""
        return {number: section.failed for number, section in enumerate(self.sections, 1) if section.failed}

    @property
    def characters(self) -> int:
        """The size of the text."""
        return sum(len(text) for section in self.sections for _, text in section.items)

    def start_section(self, title: str = "") -> None:
        """Start a new section, unless the last one is still empty."""
        if not self.sections or self.sections[-1].items or self.sections[-1].failed:
            if len(self.sections) >= MAX_SECTIONS:
                raise TooMuchError(f"more than {MAX_SECTIONS:,} sections are not read")
            self.sections.append(Section())
        self.sections[-1].title = title

    def add(self, kind: ItemKind, text: str) -> None:
        """Append an item; blank ones are skipped. Line breaks are kept, and tabs separate cells."""
        if kind not in ("plain", "quote", "markdown"):
            text = "\n".join(_SPACE.sub(" ", line).strip() for line in text.split("\n"))
        text = text.strip("\n")
        if not text.strip():
            return
        if kind == "heading":
            text = text.replace("\n", " ")
        before = self.sections[-1].items[-1:] if self.sections else []
        if not self.sections or self.sections[-1].failed or (kind == "heading" and before and before[0][0] != kind):
            self.start_section()
        section = self.sections[-1]
        section.items.append((kind, text))
        if kind == "heading":
            joined = f"{section.title}: {text}" if section.title else text
            section.title = joined if len(joined) <= _TITLE else text[:_TITLE]

    def add_rows(self, table: Table) -> None:
        """Append the rows of a table so far. Their tabs are replaced by two spaces in cleaning."""
        for line in table.lines():
            self.add("row", line)

    def fail(self, why: str) -> None:
        """Add a section that could not be read."""
        self.start_section()
        self.sections[-1].failed = why

    def remove(self, kind: str, text: str) -> None:
        """Record that `text` was left out."""
        if text := " ".join(text.split()):
            self.edits.append(Edit(kind, max(len(self.sections), 1), text))

    def finish(self) -> Parsed:
        """Itself without empty sections; TooMuchError when there is more text than a document may have."""
        if self.characters > MAX_CHARACTERS:
            raise TooMuchError(f"more than {MAX_CHARACTERS:,} characters are not read")
        self.sections = [section for section in self.sections if section.items or section.failed]
        return self
