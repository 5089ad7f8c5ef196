"""Split lines of a PDFium text page where the text jumps to another place: PDFium joins what is drawn in a row."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from itertools import pairwise

from specextend_cli.documents.glyphs import Glyphs
from specextend_cli.documents.superscripts import MARK, SMALLER, plain

_BACK = 0.5  # sizes: what follows begins so far left of the end of what is before it
_OFFSET = 0.45  # sizes between two base lines; cells of one row differ less
_APART = 1.0  # sizes: a note mark or an index is nearer to its word
_MARK = re.compile(MARK)
_SPACE = re.compile(r"(?<=\S) (?=\S)")


def split_at_jumps(glyphs: Glyphs, body: str, first: int) -> Iterator[tuple[str, int]]:
    """The parts of a line between jumps, each with the position of its first character.

    `body[n]` is the character at position `first + n` of the page's text.
    """
    cuts: list[int] = []
    for match in _SPACE.finditer(body):
        at = match.start()
        if (cuts and _is_mark(glyphs, body, cuts[-1], at, first)) or _is_jump(glyphs, body, at, first):
            cuts.append(at)
    for start, end in pairwise([-1, *cuts, len(body)]):
        yield body[start + 1 : end], first + start + 1


def _is_mark(glyphs: Glyphs, body: str, cut: int, end: int, first: int) -> bool:
    """Whether the mark of a note is between a jump and `end`: drawn after the words behind it, which go on there."""
    if not _MARK.fullmatch(plain(body[cut + 1 : end])):
        return False
    return glyphs.at(first + cut + 1).size < SMALLER * glyphs.at(first + cut - 1).size


def _is_jump(glyphs: Glyphs, body: str, space: int, first: int) -> bool:
    """Whether the character after a space is left of the one before it, or on another base line and far away."""
    before, after = first + space - 1, first + space + 1
    if not glyphs.may_jump(before, after):
        return False
    if any(unicodedata.bidirectional(body[at]) in ("R", "AL", "AN", "NSM") for at in (space - 1, space + 1)):
        return False  # that script runs to the left
    a, b = glyphs.at(before), glyphs.at(after)
    size = max(a.size, b.size)
    if a.turn != b.turn or a.slanted or b.slanted or size <= 0:
        return False
    return b.left < a.right - _BACK * size or (
        abs(a.base - b.base) > _OFFSET * size and b.left > a.right + _APART * size
    )
