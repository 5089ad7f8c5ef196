"""Table cells of several lines that are centred beside the single lines of their row."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from itertools import chain, pairwise

from specextend_cli.documents.document import Edit
from specextend_cli.documents.line import Line, Pages, Repaired, pieces, runs
from specextend_cli.documents.repairs.compounds import compounds
from specextend_cli.documents.repairs.hyphens import joined

_STEP = 1.5  # sizes from line to line of a cell
_NEARER = 0.9  # sizes: lines of text are further apart
_LEVEL = 0.12  # sizes: how much steps may differ, and the middle of a cell be above or below its row
_LEAST, _MOST = 3, 100  # cells in a row
_LINES = 100  # in a cell
_WORD = re.compile(r"[^\W\d_]{4}")  # the parts of a fraction have none


def wrapped_cells(pages: Pages) -> Repaired:
    """Join the lines of each cell whose middle, or first line, is at the height of its row, and these cells."""
    known = cache(lambda: compounds(pages))
    edits: list[Edit] = []

    def text_of(cell: Sequence[Line]) -> str:
        text = cell[0].text
        for line in cell[1:]:
            text = joined(text, line.text, known())
        return text

    def row_of(row: list[list[Line]]) -> list[Line]:
        lines = [line for cell in row for line in cell]
        split = ([[piece] for piece in pieces(cell[0])] if len(cell) == 1 else [cell] for cell in row)
        parts = sorted((cell for cells in split for cell in cells), key=_left)
        cells = [sorted(chain(*cell), key=lambda line: -line.base) for cell in runs(parts, _is_in)]
        if not _is_row(cells):
            return lines
        gaps = tuple((_right(a), _left(b)) for a, b in pairwise(cells))
        text = "\t".join(map(text_of, cells))
        edits.append(Edit("cell joined", lines[0].page, "\n".join(line.text for line in lines), text))
        base = next(cell[0].base for cell in cells if len(cell) == 1)
        return [lines[0]._replace(text=text, left=_left(cells[0]), right=_right(cells[-1]), base=base, gaps=gaps)]

    return [[line for row in runs(runs(page, _goes_on), _is_beside) for line in row_of(row)] for page in pages], edits


def _goes_on(cell: Sequence[Line], line: Line) -> bool:
    """True if a line is the next one of a cell: in equal steps, and at its left, right or middle."""
    last = cell[-1]
    step = last.base - line.base
    alike = (last.size, last.bold, last.slanted) == (line.size, line.bold, line.slanted) and line.size != 1
    if last.gaps or line.gaps or not alike or len(cell) > _LINES or not 0 < step < _STEP * line.size:
        return False
    left, right = abs(last.left - line.left), abs(last.right - line.right)
    middle = abs(last.left + last.right - line.left - line.right) / 2
    even = len(cell) == 1 or abs(cell[-2].base - last.base - step) < _LEVEL * line.size
    return min(left, right, middle) < line.size and even


def _is_beside(row: Sequence[Sequence[Line]], cell: Sequence[Line]) -> bool:
    """True if the middle, or the first line, of a cell is at the height of that of the first cell of the row.

    Lines with cells that are nearer to each other than lines of text are of one row too.
    """
    first, size = row[0], cell[0].size
    level = abs(first[0].base - cell[0].base)
    near = len(first) == len(cell) == 1 and (first[0].gaps or cell[0].gaps) and level < _NEARER * size
    apart = 0.0 if near else min(abs(_middle(first) - _middle(cell)), level)
    return len(row) < _MOST and max(apart, abs(first[0].size - size)) < _LEVEL * size


def _is_in(cell: Sequence[Sequence[Line]], part: Sequence[Line]) -> bool:
    """True if a part of a row is above or below the parts of a cell."""
    return _left(part) < max(map(_right, cell))


def _is_row(cells: Sequence[Sequence[Line]]) -> bool:
    """True if some cells have several lines, which hold words, and others have one."""
    wrapped = [cell for cell in cells if len(cell) > 1]
    words = all(any(_WORD.search(line.text) for line in cell) for cell in wrapped)
    steps = (a.base - b.base for cell in wrapped for a, b in pairwise(cell))
    return 0 < len(wrapped) < len(cells) >= _LEAST and words and min(steps) > _LEVEL


def _middle(cell: Sequence[Line]) -> float:
    return (cell[0].base + cell[-1].base) / 2


def _left(cell: Sequence[Line]) -> float:
    return min(line.left for line in cell)


def _right(cell: Sequence[Line]) -> float:
    return max(line.right for line in cell)
