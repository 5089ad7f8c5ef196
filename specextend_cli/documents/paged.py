"""The result of parsers of formats with pages: the lines of a PDF, or the texts between form feeds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from specextend_cli.documents.document import Edit
from specextend_cli.documents.layout import Outline
from specextend_cli.documents.line import Line


@dataclass(slots=True)
class Paged:
    """A parsed file with pages. All numbers are 1-based.

    `requested` are the pages to be kept. `pages` may hold a few more, as running heads are recognized by repetition.
    `labels` are the page labels ("iv", "A-1") that differ from the numbers. `edits` are repairs made while reading.
    `failed` pages could not be read, by page why; what `scanned` ones say is in a picture, or in fonts without meaning.
    `unread` counts parts that were not read, among them such pages with a text that is read.
    """

    requested: tuple[int, ...]
    pages: dict[int, list[Line]] = field(default_factory=dict)
    title: str = ""
    outline: Outline = ()
    labels: dict[int, str] = field(default_factory=dict)
    edits: list[Edit] = field(default_factory=list)
    failed: dict[int, str] = field(default_factory=dict)
    scanned: tuple[int, ...] = ()
    warnings: list[str] = field(default_factory=list)
    unread: int = 0
    kind: Literal["pdf", "text"] = "pdf"
    unit: Literal["page", "section"] = "page"

    @property
    def characters(self) -> int:
        """The size of the text."""
        return sum(len(line.text) for page in self.pages.values() for line in page)
