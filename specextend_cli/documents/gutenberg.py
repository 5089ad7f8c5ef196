"""Books of Project Gutenberg: the licence before and after the text is no part of it. Marked lines enclose the text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter

from specextend_cli.documents.sections import Parsed

LICENCE = "licence"
_MARK = re.compile(
    r"^\*\*\* ?(?P<start>START) OF TH(?:E|IS) PROJECT GUTENBERG E(?:BOOK|TEXT)\b.{0,400}?\*\*\*"
    r"|^\*END\*?(?P<old> ?THE SMALL PRINT!).{0,100}?\*END\*"  # until 2003
    r"|^\*\*\* ?END OF TH(?:E|IS) PROJECT GUTENBERG E(?:BOOK|TEXT)\b"
    r"|^End of (?:the |this )?Project Gutenberg\b",
    re.MULTILINE | re.DOTALL | re.IGNORECASE,
)
_HEADER = re.compile(r"use\s+of\s+anyone\s+anywhere|\bSMALL\s+PRINT!", re.IGNORECASE)
_LONGEST = 60_000  # characters from one text to the next: a licence and a header


def without_licence(text: str) -> tuple[str, list[str]]:
    """The text without the licence and the header of its edition, and these."""
    spans = list(_licences(text))
    return _outside(text, spans), [text[start:end] for start, end in spans]


def book_of(parsed: Parsed) -> Parsed:
    """`parsed` without the licence, which is recorded as removed; itself where it has none."""
    texts = [text for section in parsed.sections for _, text in section.items]
    spans = list(_licences("\n\n".join(texts)))
    if not spans:
        return parsed
    left = Parsed(parsed.kind, parsed.title, warnings=parsed.warnings, unread=parsed.unread)
    removed = {number: list(parts) for number, parts in groupby(parsed.removed, key=itemgetter(1))}
    at = 0
    for number, section in enumerate(parsed.sections, 1):
        left.start_section()
        if section.failed:
            left.fail(section.failed)
        for kind, _, text in removed.get(number, ()):
            left.remove(kind, text)
        for item, text in section.items:
            here = [(max(start - at, 0), min(end - at, len(text))) for start, end in spans]
            here = [(start, end) for start, end in here if start < end]
            for start, end in here:
                left.remove(LICENCE, text[start:end])
            left.add(item, _outside(text, here))
            at += len(text) + 2
        if left.sections[-1].items and all(item != "heading" for item, _ in section.items):
            left.sections[-1].title = section.title
    return left


def _licences(text: str) -> Iterator[tuple[int, int]]:
    """Start and end of what is outside of the marked text, or texts; nothing where no header says what it is."""
    begin, inside = 0, False
    for mark in _MARK.finditer(text):
        if mark["start"] or mark["old"]:
            header = text[begin : mark.end()]
            if not inside and len(header) <= _LONGEST and _HEADER.search(header):
                yield begin, mark.end()
                inside = True
        elif inside:
            begin, inside = mark.start(), False
    if begin and not inside:
        yield begin, len(text)


def _outside(text: str, spans: list[tuple[int, int]]) -> str:
    edges = [0, *(edge for span in spans for edge in span), len(text)]
    return "".join(text[start:end] for start, end in zip(edges[::2], edges[1::2], strict=True))
