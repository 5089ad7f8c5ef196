"""Split lines of a PDFium text page where the text jumps to another place: PDFium joins what is drawn in a row."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from specextend_cli.documents.glyphs import Glyph, Glyphs
from specextend_cli.documents.line import plain
from specextend_cli.documents.superscripts import MARK, SMALLER

_BACK = 0.5  # sizes: what follows begins so far left of the end of what is before it
_OFFSET = 0.45  # sizes between the base lines of two columns
_APART = 1.0  # sizes: a note mark or an index is nearer to its word
_LEVEL = 0.1  # sizes between the base lines of cells of one row
_LOOK_BACK = 200  # characters
_ENOUGH = 3  # lines of two columns on a page
_BEGINNING = 100  # characters that tell whether a part is prose
_MARK = re.compile(MARK)
_SPACE = re.compile(r"(?<=\S) (?=\S)")
_PROSE = re.compile(r"(?=.{16}).*[^\W\d_]{2} .*[^\W\d_]{2} ")  # longer than a table cell


@dataclass(slots=True)
class _Jump:
    """A space at which the text goes back to the left (or else to another base line, further to the right)."""

    at: int
    back: bool


def split_at_jumps(glyphs: Glyphs, lines: Sequence[tuple[str, int]]) -> list[tuple[str, int]]:
    """The lines of a page, divided at jumps; each is a text and the position of its first character.

    Jumps to the right divide prose only: the cells of a row may be at different heights too.
    """
    found = [(body, first, list(_jumps(glyphs, body, first))) for body, first in lines]
    beside = {(first, at) for body, first, jumps in found for at in _between_prose(body, jumps)}
    parts: list[tuple[str, int]] = []
    for body, first, jumps in found:
        cuts = [jump.at for jump in jumps if jump.back or (len(beside) >= _ENOUGH and (first, jump.at) in beside)]
        parts += ((body[start + 1 : end], first + start + 1) for start, end in pairwise([-1, *cuts, len(body)]))
    return parts


def _between_prose(body: str, jumps: Sequence[_Jump]) -> Iterator[int]:
    """The jumps to the right with prose on both sides."""
    ends = [-1, *(jump.at for jump in jumps), len(body)]
    for number, jump in enumerate(jumps):
        before, after = body[ends[number] + 1 : jump.at][:_BEGINNING], body[jump.at + 1 : ends[number + 2]][:_BEGINNING]
        if not jump.back and _PROSE.match(before) and _PROSE.match(after):
            yield jump.at


def _jumps(glyphs: Glyphs, body: str, first: int) -> Iterator[_Jump]:
    last = -1
    for match in _SPACE.finditer(body):
        at = match.start()
        jump = _jump(glyphs, body, at, first)
        if jump is None and last >= 0 and _is_mark(glyphs, body, last, at, first):
            jump = _Jump(at, back=True)
        if jump:
            last = at
            yield jump


def _is_mark(glyphs: Glyphs, body: str, jump: int, end: int, first: int) -> bool:
    """True if the mark of a note is between a jump and `end`: drawn after the words behind it, which go on there."""
    if not _MARK.fullmatch(plain(body[jump + 1 : end])):
        return False
    before, mark = glyphs.at(first + jump - 1), glyphs.at(first + jump + 1)
    return mark.size < SMALLER * before.size and 0 < mark.base - before.base < before.size


def _jump(glyphs: Glyphs, body: str, space: int, first: int) -> _Jump | None:
    before, after = first + space - 1, first + space + 1
    if not glyphs.may_jump(before, after):
        return None
    if any(unicodedata.bidirectional(body[at]) in ("R", "AL", "AN", "NSM") for at in (space - 1, space + 1)):
        return None  # that script runs to the left
    a, b = glyphs.at(before), glyphs.at(after)
    size = max(a.size, b.size)
    if a.turn != b.turn or a.slanted or b.slanted or size <= 0:
        return None
    if b.left < a.right - _BACK * size:
        # A cell that is drawn after those to the right of it stays in its row.
        level = abs(a.base - b.base) < _LEVEL * size
        return None if level and _is_free(glyphs, space, first, b) else _Jump(space, back=True)
    lower = abs(a.base - b.base) > _OFFSET * size and b.left > a.right + _APART * size
    return _Jump(space, back=False) if lower else None


def _is_free(glyphs: Glyphs, space: int, first: int, letter: Glyph) -> bool:
    """True if a character lies on none of those before it in the line."""
    start = max(space - _LOOK_BACK, 0)
    spans = glyphs.spans(first + start, space - start, letter.turn)
    return not any(left < letter.right and letter.left < right for left, right in spans)
