"""A document as the rest of the program sees it: one string, and where its pages and blocks lie in it."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True, slots=True)
class Page:
    """Characters [start, end) of the text come from page `number` (1-based, as printed by a viewer).

    In a document without pages it is a section, and `title` the heading it begins with, or "". `label` is what the
    page is called ("iv", "A-1") where that is not its number.
    """

    number: int
    start: int
    end: int
    title: str = ""
    label: str = ""


@dataclass(frozen=True, slots=True)
class Block:
    """A heading or a paragraph: characters [start, end) of the text."""

    kind: Literal["heading", "paragraph"]
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
class Sheet:
    """The lines of page `number` as they were found and as cleaning left them, blank ones left out."""

    number: int
    found: tuple[str, ...]
    cleaned: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Extraction:
    """What happened between the file and the text.

    `pages` counts the pages (or sections) asked for; `empty` lists those without text and `failed` those that could
    not be read (1-based). `changes` counts the repairs by name ("running head", "page number", "hyphen joined",
    "ligature", ...); `edits` lists the same repairs one by one, so that they can be shown. `sheets`
    show what they did, page by page. `warnings` are complete sentences for the user. `ocr` lists the pages whose text
    was recognized on a picture of them.
    """

    pages: int
    empty: tuple[int, ...] = ()
    failed: tuple[int, ...] = ()
    changes: Counter[str] = field(default_factory=Counter)
    warnings: tuple[str, ...] = ()
    edits: tuple[Edit, ...] = ()
    sheets: tuple[Sheet, ...] = ()
    ocr: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Document:
    """Text and its structure. `pages` and `blocks` are sorted and do not overlap; `text` is what the model sees.

    `pages` lists the pages that have text and covers the text without gaps; `unit` says what they are. `title` is the
    file's own, or "".
    """

    name: str
    kind: str
    text: str
    pages: tuple[Page, ...]
    blocks: tuple[Block, ...]
    extraction: Extraction
    title: str = ""
    unit: Literal["page", "section"] = "page"

    def pages_of(self, start: int, end: int) -> tuple[int, ...]:
        """Numbers of the pages that characters [start, end) touch."""
        first = max(bisect_right(self.pages, start, key=_start) - 1, 0)
        last = bisect_left(self.pages, end, key=_start)
        return tuple(page.number for page in self.pages[first:last] if page.end > start)


def _start(page: Page) -> int:
    return page.start


@dataclass(frozen=True, slots=True)
class Chunk:
    """Characters [start, end) of a document: `tokens` target tokens when encoded on their own."""

    start: int
    end: int
    tokens: int
