"""The result of parsers of structured formats: sections, each a sequence of headings, paragraphs and rows.

A section begins at a heading (several headings in a row begin one together) or where a new file begins, as in an
EPUB. It is to these formats what a page is to a PDF: the place that is cited.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from specextend_cli.documents.tables import Table

ItemKind = Literal["heading", "paragraph", "row", "plain"]

MAX_CHARACTERS = 32_000_000
MAX_SECTIONS = 20_000
_TITLE = 160
_SPACE = re.compile(r"[ \r\f\v]+")


class TooMuchError(Exception):
    """More text, or more sections, than a document may have."""


@dataclass(frozen=True, slots=True)
class Source:
    """A file to be parsed: `name` is for messages; with `full_page`, all of a web page and not only its article."""

    path: Path
    name: str
    full_page: bool = False


@dataclass(slots=True)
class Section:
    """One section: (kind, text) items in order, its headings as `title`, and `failed`: why it could not be read.

    A "row" is a list item or a table row: adjacent rows stay together. "plain" is text as typed, with its line and
    page breaks.
    """

    title: str = ""
    items: list[tuple[ItemKind, str]] = field(default_factory=list)
    failed: str = ""
    has_body: bool = False  # whether there are items other than headings


@dataclass(slots=True)
class Parsed:
    """A parsed file: its sections, what was left out as (kind, section, text), and warnings for the user.

    `unread` counts its parts that were not opened.
    """

    kind: str
    title: str = ""
    sections: list[Section] = field(default_factory=list)
    removed: list[tuple[str, int, str]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    unread: int = 0

    def start_section(self) -> None:
        """Start a new section, unless the last one is still empty."""
        if not self.sections or self.sections[-1].items or self.sections[-1].failed:
            if len(self.sections) >= MAX_SECTIONS:
                raise TooMuchError(f"more than {MAX_SECTIONS:,} sections are not read")
            self.sections.append(Section())

    def add(self, kind: ItemKind, text: str) -> None:
        """Append an item; blank ones are skipped. Line breaks are kept, and tabs separate cells."""
        lines = text.split("\n") if kind == "plain" else [_SPACE.sub(" ", line).strip() for line in text.split("\n")]
        text = "\n".join(lines).strip("\n")
        if not text.strip():
            return
        if kind == "heading":
            text = text.replace("\n", " ")
        if not self.sections or self.sections[-1].failed or (kind == "heading" and self.sections[-1].has_body):
            self.start_section()
        section = self.sections[-1]
        section.items.append((kind, text))
        section.has_body = section.has_body or kind != "heading"
        if kind == "heading" and not section.has_body:
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
            self.removed.append((kind, max(len(self.sections), 1), text))

    def finish(self) -> Parsed:
        """Itself without empty sections; TooMuchError when there is more text than a document may have."""
        if sum(len(text) for section in self.sections for _, text in section.items) > MAX_CHARACTERS:
            raise TooMuchError(f"more than {MAX_CHARACTERS:,} characters are not read")
        self.sections = [section for section in self.sections if section.items or section.failed]
        return self
