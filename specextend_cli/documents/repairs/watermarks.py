"""Remove watermarks (DRAFT, CONFIDENTIAL)."""

from __future__ import annotations

from collections import Counter
from statistics import median

from specextend_cli.documents.document import Edit
from specextend_cli.documents.line import Pages, Repaired, body_size

KEPT_MARK = "watermark kept"
"""Kind of an edit without effect: slanted text that is too much of its pages to be a watermark."""
_MAX_SHARE = 0.6  # of the letters and digits of a page


def watermarks(pages: Pages) -> Repaired:
    """Remove slanted words that recur at one position on other pages, or are much larger than the text."""
    slanted = [line for page in pages for line in page if line.slanted and sum(map(str.isalpha, line.text)) > 2]
    if not slanted:
        return [list(page) for page in pages], []
    upright = [line for page in pages for line in page if not line.slanted]
    body = body_size(upright or slanted)
    places = [(line.text, round(line.left / 4), round(line.base / 4)) for line in slanted]
    counts = Counter(places)
    marks = [line for line, at in zip(slanted, places, strict=True) if counts[at] > 1 or line.size > 1.5 * body]
    removed = set(map(id, marks))
    lost = Counter[int]()
    for line in marks:
        lost[line.page] += line.weight
    shares = [lost[page[0].page] / sum(line.weight for line in page) for page in pages if page and lost[page[0].page]]
    if shares and median(shares) > _MAX_SHARE:
        return [list(page) for page in pages], [Edit(KEPT_MARK, line.page, line.text, line.text) for line in marks]
    edits = [Edit("watermark", line.page, line.text) for line in marks]
    return [[line for line in page if id(line) not in removed] for page in pages], edits
