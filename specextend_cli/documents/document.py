"""A document as the rest of the program sees it: one string with the positions of its pages and blocks."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal

LEFT_OUT = frozenset(("deleted text", "encoded data", "hidden text", "navigation", "notice", "outside the article"))
"""Kinds of repairs that leave out words of a file."""


@dataclass(frozen=True, slots=True)
class Page:
    """Characters [start, end) of the text come from page `number` (1-based, as a viewer counts).

    In a document without pages it is a section, and `title` is its first heading, or "". `label` is the page label
    ("iv", "A-1") where it differs from the number.
    """

    number: int
    start: int
    end: int
    title: str = ""
    label: str = ""


@dataclass(frozen=True, slots=True)
class Block:
    """A heading, a paragraph, or one of another message that a mail quotes: characters [start, end) of the text."""

    kind: Literal["heading", "paragraph", "quote"]
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Edit:
    """One repair: on `page`, the characters `before` became `after` ("" when they were removed)."""

    kind: str
    page: int
    before: str
    after: str = ""


@dataclass(frozen=True, slots=True)
class Extraction:
    """Repairs and omissions between the file and the text.

    `pages` counts the pages (or sections) that were requested; `empty` lists those without text and `failed` those
    that could not be read (1-based). `warnings` are complete sentences for the user. `edits` lists the repairs one by
    one. `ocr` lists the pages whose text was recognized by OCR. `unread` counts the parts that were not read:
    attachments, pictures in the place of text.
    """

    pages: int
    empty: tuple[int, ...] = ()
    failed: tuple[int, ...] = ()
    warnings: tuple[str, ...] = ()
    edits: tuple[Edit, ...] = ()
    ocr: tuple[int, ...] = ()
    unread: int = 0

    @property
    def changes(self) -> Counter[str]:
        """The number of repairs by kind: "running head", "page number", "hyphen joined", "ligature", ..."""
        return Counter(edit.kind for edit in self.edits)

    @property
    def left_out(self) -> int:
        """The number of words that the file has and the text does not, apart from page furniture and marks."""
        return sum(len(edit.before.split()) for edit in self.edits if edit.kind in LEFT_OUT)


@dataclass(frozen=True, slots=True)
class Document:
    """Text and its structure. `pages` and `blocks` are sorted and do not overlap; `text` is what the model sees.

    `pages` lists the pages (or sections, by `unit`) that have text and covers the text without gaps. `title` comes
    from the file's metadata, or is "".
    """

    name: str
    kind: str
    text: str
    pages: tuple[Page, ...]
    blocks: tuple[Block, ...]
    extraction: Extraction
    title: str = ""
    unit: Literal["page", "section"] = "page"

    @classmethod
    def of_json(cls, values: Sequence[Any]) -> Document:
        """From the fields of each class as JSON arrays."""
        name, kind, text, pages, blocks, found, title, unit = values
        count, empty, failed, warnings, edits, ocr, unread = found
        made = tuple(Edit(*edit) for edit in edits)
        extraction = Extraction(count, tuple(empty), tuple(failed), tuple(warnings), made, tuple(ocr), unread)
        places = tuple(Page(*page) for page in pages), tuple(Block(*block) for block in blocks)
        return cls(name, kind, text, *places, extraction, title, unit)

    def pages_of(self, start: int, end: int) -> tuple[int, ...]:
        """Numbers of the pages that characters [start, end) touch."""
        first = max(bisect_right(self.pages, start, key=lambda page: page.start) - 1, 0)
        last = bisect_left(self.pages, end, key=lambda page: page.start)
        return tuple(page.number for page in self.pages[first:last] if page.end > start)


@dataclass(frozen=True, slots=True)
class Chunk:
    """Characters [start, end) of a document: `tokens` tokens of the target model when encoded alone."""

    start: int
    end: int
    tokens: int


@dataclass(slots=True)
class StructuredText:
    """A text under construction with its pages and blocks (see `Document`)."""

    text: str = ""
    pages: list[Page] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)


def pages_between(numbers: Sequence[int], starts: Sequence[int]) -> list[Page]:
    """The pages of a text of parts with these page numbers, whose `starts` end with the end of the text."""
    firsts = [0, *(at for at in range(1, len(numbers)) if numbers[at] != numbers[at - 1]), len(numbers)]
    return [Page(numbers[first], starts[first], starts[end]) for first, end in pairwise(firsts) if first < end]
