"""Stamps across a page (DRAFT, CONFIDENTIAL) go."""

from __future__ import annotations

from collections import Counter

from specextend_cli.documents.document import Edit
from specextend_cli.documents.line import Line
from specextend_cli.documents.repairs.repair import Pages, Repaired


def watermarks(pages: Pages) -> Repaired:
    """Slanted words that return in one place on other pages, or are much larger than the text."""
    slanted = [line for page in pages for line in page if line.slanted and sum(map(str.isalpha, line.text)) > 2]
    if not slanted:
        return [list(page) for page in pages], []
    sizes = Counter[float]()
    for page in pages:
        for line in page:
            sizes[line.size] += len(line.text) * (not line.slanted)
    body = sizes.most_common(1)[0][0]
    returning = Counter(map(_place, slanted))
    gone = {id(line) for line in slanted if returning[_place(line)] > 1 or line.size > 1.5 * body}
    edits = [Edit("watermark", line.page, line.text) for line in slanted if id(line) in gone]
    return [[line for line in page if id(line) not in gone] for page in pages], edits


def _place(line: Line) -> tuple[str, int, int]:
    return line.text, round(line.left / 4), round(line.base / 4)
