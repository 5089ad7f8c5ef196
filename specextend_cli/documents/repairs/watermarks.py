"""Stamps across a page (DRAFT, CONFIDENTIAL) go."""

from __future__ import annotations

from collections import Counter
from statistics import median

from specextend_cli.documents.document import Edit
from specextend_cli.documents.line import Line
from specextend_cli.documents.repairs.repair import Pages, Repaired, weight

KEPT_MARK = "watermark kept"
"""The kind of an edit that changes nothing: slanted text that is too much of its pages to be a watermark."""
_SMALL = 0.6  # of the letters and digits of a page


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
    if _share(pages, gone) > _SMALL:
        return [list(page) for page in pages], [
            Edit(KEPT_MARK, line.page, line.text, line.text) for line in slanted if id(line) in gone
        ]
    edits = [Edit("watermark", line.page, line.text) for line in slanted if id(line) in gone]
    return [[line for line in page if id(line) not in gone] for page in pages], edits


def _share(pages: Pages, gone: set[int]) -> float:
    """The share of their letters and digits that pages with removed lines lose: the median."""
    shares = []
    for page in pages:
        whole, lost = sum(map(weight, page)), sum(weight(line) for line in page if id(line) in gone)
        if lost:
            shares.append(lost / whole)
    return median(shares) if shares else 0.0


def _place(line: Line) -> tuple[str, int, int]:
    return line.text, round(line.left / 4), round(line.base / 4)
