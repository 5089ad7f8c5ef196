"""Rejoin sentences that the notes at the foot of a page or a column interrupt."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from specextend_cli.documents.document import Edit
from specextend_cli.documents.line import Line, Pages, Repaired, body_size
from specextend_cli.documents.repairs.captions import ENDED, is_prose
from specextend_cli.documents.repairs.notes import NOTE_NUMBER

_SMALL = 0.96  # of the body size: a note is set in less
_MAX_LINES = 1_000  # on a page: with more it is a list
_CLOSE = 1.6  # sizes: line spacing within a paragraph
_INDENT = 2.0


def page_notes(pages: Pages) -> Repaired:
    """Move notes between an unfinished sentence and its continuation above the paragraph of that sentence.

    They cannot go behind it: what continues stands on the next page, or in the next column. Where the paragraph fills
    its page and began on the one before, notes stay.
    """
    edits: list[Edit] = []
    body = body_size(line for page in pages for line in page)
    fixed = [list(page) for page in pages]
    filled = [page for page in fixed if page]
    before: Line | None = None  # the last line of text on the pages before
    for page, following in pairwise([*filled, []]):
        if body != 1 and len(page) <= _MAX_LINES:
            at = 0
            while at < len(page):
                first, at = _notes(page, at, body)
                goes_on = page[at] if at < len(page) else following[0] if following else None
                if first == at or goes_on is None or not _interrupted(page[first - 1], goes_on, body):
                    continue
                start = _paragraph(page, first - 1)
                if start > 0 or before is None or ENDED.search(before.text):
                    edits += [Edit("moved", line.page, line.text, line.text) for line in page[first:at]]
                    page[start:at] = page[first:at] + page[start:first]
        before = next((line for line in reversed(page) if is_prose(line, body)), before)
    return fixed, edits


def _notes(page: Sequence[Line], at: int, body: float) -> tuple[int, int]:
    """The next notes (start, end) below a line of text, to the end of their column; else empty.

    They are set in small type, or stand apart from the text and begin with a raised number.
    """
    while at < len(page) and not (at > 0 and is_prose(page[at - 1], body) and _is_note(page[at], page[at - 1], body)):
        at += 1
    end = at
    small = at < len(page) and page[at].size < _SMALL * body
    while end < len(page) and page[end].base < page[at - 1].base and (page[end].size < _SMALL * body or not small):
        end += 1
    return at, end


def _is_note(line: Line, last: Line, body: float) -> bool:
    apart = last.base - line.base > _CLOSE * line.size and NOTE_NUMBER.match(line.text) is not None
    return line.base < last.base and (line.size < _SMALL * body or apart)


def _interrupted(last: Line, first: Line, body: float) -> bool:
    """True if the sentence of `last` has no end, and `first`, of another page or column, may continue it."""
    apart = first.page != last.page or first.base > last.base
    alike = is_prose(first, body, least=1) and (first.text[0].islower() or abs(first.left - last.left) < _INDENT)
    return apart and alike and not ENDED.search(last.text)


def _paragraph(page: Sequence[Line], at: int) -> int:
    """The first line of the paragraph to which a line belongs."""
    while at > 0:
        above, line = page[at - 1], page[at]
        alike = abs(above.size - line.size) < (1 - _SMALL) * line.size and above.bold == line.bold
        indented = line.left - above.left > _INDENT and ENDED.search(above.text)
        if not alike or indented or not 0 < above.base - line.base < _CLOSE * line.size:
            break
        at -= 1
    return at
