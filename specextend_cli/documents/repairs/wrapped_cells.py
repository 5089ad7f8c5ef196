"""Table cells of several lines that are centred beside the single lines of their row."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from math import inf

from specextend_cli.documents.document import Edit
from specextend_cli.documents.line import CELL_SEPARATOR, Line, page_by_page

_WORD = re.compile(r"[^\W\d_]{3}")  # the parts of a fraction have none
_LINES = 8  # of a cell, at most
_BETWEEN = 0.95  # sizes: nearer lines are no rows of their own
_STEP = 1.5  # sizes from line to line of a cell
_CENTRED = 0.12  # sizes: how much the middle of a cell may be above or below its row
_APART = 1.15  # times the step in a cell: the least distance to the next row


@page_by_page
def wrapped_cells(page: Sequence[Line], edits: list[Edit]) -> list[Line]:
    """Put the lines of a centred cell into its row: half of them are above its base line, and half below."""
    kept = list(page)
    at = 0
    while at < len(kept):
        row = kept[at]
        if row.gaps and row.text.count(CELL_SEPARATOR) == len(row.gaps):
            first, end = _cell_lines(kept, at)
            if whole := _whole(row, [*kept[first:at], *kept[at + 1 : end]], _next_row(kept, first, end)):
                before = "\n".join(line.text for line in kept[first:end])
                edits.append(Edit("cell joined", row.page, before, whole.text))
                kept[first:end] = [whole]
                at = first
        at += 1
    return kept


def _cell_lines(page: Sequence[Line], at: int) -> tuple[int, int]:
    """The start and end of the lines around a row that may be in its cells: each is nearer to it than to others."""
    row, first, end = page[at], at, at + 1

    def fits(line: Line) -> bool:
        alike = abs(line.size - row.size) < 0.08 * row.size and line.turn == row.turn and len(line.gaps) < len(row.gaps)
        return alike and _CENTRED * row.size < abs(line.base - row.base) < _LINES / 2 * _STEP * row.size

    while first > 0 and at - first < _LINES and fits(page[first - 1]):
        first -= 1
    while end < len(page) and end - at <= _LINES and fits(page[end]):
        end += 1
    # The cells of the next row are below those of this one, and nearer to it.
    heights = sorted({line.base for line in page[first:end] if line.base != row.base})
    above = [height - row.base for height in heights if height > row.base]
    below = [row.base - height for height in reversed(heights) if height < row.base]
    reach = 0.0
    for up, down in zip(above, below, strict=False):
        if abs(up - down) > _CENTRED * row.size or up - reach > _STEP * row.size:
            break
        reach = max(up, down)
    while first < at and abs(page[first].base - row.base) > reach:
        first += 1
    while end > at + 1 and abs(page[end - 1].base - row.base) > reach:
        end -= 1
    return first, end


def _next_row(page: Sequence[Line], first: int, end: int) -> float:
    """How far the nearest line outside is from the lines of a row."""
    inside = page[first:end]
    top, foot = max(line.base for line in inside), min(line.base for line in inside)
    outside = [*page[max(first - 1, 0) : first], *page[end : end + 1]]
    return min((min(abs(line.base - top), abs(line.base - foot)) for line in outside), default=inf)


def _whole(row: Line, others: Sequence[Line], distance: float) -> Line | None:
    """The row with its cells whole; None where the other lines are not in them."""
    edges = [-inf, row.left, *(edge for gap in row.gaps for edge in gap), row.right, inf]
    cells = row.text.split(CELL_SEPARATOR)
    found = defaultdict[int, list[Line]](list)  # by the place among the edges: odd ones are the cells of the row
    for line in others:
        for piece in pieces(line):
            places = [at for at, (left, right) in enumerate(pairwise(edges)) if piece.left < right and left < piece.right]
            places = [at for at in places if at % 2] or places
            if len(places) != 1:
                return None
            found[places[0]].append(piece)
    texts: list[tuple[str, float, float]] = []
    for at, (left, right) in enumerate(pairwise(edges)):
        lines = found[at] + ([row._replace(text=cells[at // 2], left=left, right=right)] if at % 2 else [])
        if found[at] and not (len(lines) > 1 and _is_centred(row, lines, distance)):
            return None
        if lines:
            lines.sort(key=lambda line: -line.base)
            text = " ".join(line.text for line in lines)
            texts.append((text, min(line.left for line in lines), max(line.right for line in lines)))
    if not others:
        return None
    gaps = tuple((a[2], b[1]) for a, b in pairwise(texts))
    return row._replace(text=CELL_SEPARATOR.join(text[0] for text in texts), left=texts[0][1], right=texts[-1][2], gaps=gaps)


def _is_centred(row: Line, lines: Sequence[Line], distance: float) -> bool:
    """True if the lines of a cell are in equal steps around the base line of their row."""
    heights = sorted(line.base for line in lines)
    steps = [b - a for a, b in pairwise(heights)]
    worded = all(_WORD.search(line.text) for line in lines) and len({line.bold for line in lines}) == 1
    even = max(steps) - min(steps) < _CENTRED * row.size and max(steps) <= _STEP * row.size
    near = len(lines) % 2 == 0 and steps[0] / 2 < _BETWEEN * row.size
    return worded and even and abs(sum(heights) / len(heights) - row.base) < _CENTRED * row.size and (near or distance > _APART * steps[0])


def pieces(line: Line) -> list[Line]:
    """The cells of a line, each with its place; the line where they are not known."""
    parts = line.text.split(CELL_SEPARATOR)
    if len(parts) != len(line.gaps) + 1:
        return [line]
    lefts, rights = [line.left, *(end for _, end in line.gaps)], [*(start for start, _ in line.gaps), line.right]
    return [
        line._replace(text=text, left=left, right=right, gaps=())
        for text, left, right in zip(parts, lefts, rights, strict=True)
    ]
