"""What readers of structured files produce: sections, each a run of headings, paragraphs and rows.

A section begins at a heading (several headings in a row begin one together) or where the file itself begins anew, as
at the files of an EPUB. It is what a page is to a PDF: the place that is cited.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Literal

Kind = Literal["heading", "paragraph", "row", "plain"]

MAX_CHARACTERS = 32_000_000
MAX_SECTIONS = 20_000
_TITLE = 160
_SPACE = re.compile(r"[ \r\f\v]+")


class TooMuchError(Exception):
    """More text, or more sections, than a document can have."""


@dataclass(slots=True)
class Section:
    """One section: (kind, text) items in order, its headings as `title`, and `failed`: why it could not be read.

    A "row" is a list item or a row of a table: rows that follow each other stay together. "plain" is text as typed,
    with line ends and page ends of its own.
    """

    title: str = ""
    items: list[tuple[Kind, str]] = field(default_factory=list)
    failed: str = ""
    has_body: bool = False  # whether anything but headings is among the items


@dataclass(slots=True)
class Parsed:
    """A structured file: its sections, what was left out as (kind, section, text), and sentences for the user."""

    kind: str
    title: str = ""
    sections: list[Section] = field(default_factory=list)
    removed: list[tuple[str, int, str]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def begin(self) -> None:
        """A new section, unless the last one is still empty."""
        if not self.sections or self.sections[-1].items or self.sections[-1].failed:
            if len(self.sections) >= MAX_SECTIONS:
                raise TooMuchError(f"more than {MAX_SECTIONS:,} sections are not read")
            self.sections.append(Section())

    def add(self, kind: Kind, text: str) -> None:
        """An item; blank ones are passed over. Line ends stay, and tabs stand between cells."""
        lines = text.split("\n") if kind == "plain" else [_SPACE.sub(" ", line).strip() for line in text.split("\n")]
        text = "\n".join(lines).strip("\n")
        if not text.strip():
            return
        if kind == "heading":
            text = text.replace("\n", " ")
            if self.sections and self.sections[-1].has_body:
                self.begin()
        if not self.sections or self.sections[-1].failed:
            self.begin()
        section = self.sections[-1]
        section.items.append((kind, text))
        section.has_body = section.has_body or kind != "heading"
        if kind == "heading" and not section.has_body:
            joined = f"{section.title}: {text}" if section.title else text
            section.title = joined if len(joined) <= _TITLE else text[:_TITLE]

    def fail(self, why: str) -> None:
        """A place whose section could not be read."""
        self.begin()
        self.sections[-1].failed = why

    def remove(self, kind: str, text: str) -> None:
        """Note that `text` was left out."""
        if text := " ".join(text.split()):
            self.removed.append((kind, max(len(self.sections), 1), text))

    def to_json(self) -> dict[str, Any]:
        """As the worker answers; TooMuchError when there is more text than can be."""
        if sum(len(text) for section in self.sections for _, text in section.items) > MAX_CHARACTERS:
            raise TooMuchError(f"more than {MAX_CHARACTERS:,} characters are not read")
        return {
            "kind": self.kind,
            "title": self.title,
            "sections": [[section.title, section.items, section.failed] for section in self.sections if _said(section)],
            "removed": self.removed,
            "warnings": self.warnings,
        }

    @classmethod
    def from_json(cls, answer: dict[str, Any]) -> Parsed:
        """The inverse of `to_json`."""
        sections = [
            Section(title, [(kind, text) for kind, text in items], failed)
            for title, items, failed in answer["sections"]
        ]
        removed = [(kind, number, text) for kind, number, text in answer["removed"]]
        return cls(answer["kind"], answer["title"], sections, removed, answer["warnings"])


def _said(section: Section) -> bool:
    return bool(section.items or section.failed)
