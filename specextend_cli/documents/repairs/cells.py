"""Table cells of several lines that are centred beside the single lines of their row."""

from __future__ import annotations

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
_LEAST = 3  # cells in a row


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
    """True if a line is the next one of a cell, in equal steps."""
    last = cell[-1]
    step = last.base - line.base
    even = len(cell) == 1 or abs(cell[-2].base - last.base - step) < _LEVEL * line.size
    return not last.gaps and 0 < step < _STEP * line.size and even


def _is_beside(row: Sequence[Sequence[Line]], cell: Sequence[Line]) -> bool:
    """True if the middle of a cell is at the height of that of the first cell of the row, or their first lines are.

    First lines that are nearer to each other than lines of text are of one row too.
    """
    first, size = row[0], cell[0].size
    return abs(first[0].base - cell[0].base) < _NEARER * size or abs(_middle(first) - _middle(cell)) < _LEVEL * size


def _is_in(cell: Sequence[Sequence[Line]], part: Sequence[Line]) -> bool:
    """True if a part of a row is above or below the parts of a cell."""
    return _left(part) < max(map(_right, cell))


def _is_row(cells: Sequence[Sequence[Line]]) -> bool:
    """True if some cells have several lines, and others have one."""
    wrapped = sum(len(cell) > 1 for cell in cells)
    return 0 < wrapped < len(cells) >= _LEAST


def _middle(cell: Sequence[Line]) -> float:
    return (cell[0].base + cell[-1].base) / 2


def _left(cell: Sequence[Line]) -> float:
    return min(line.left for line in cell)


def _right(cell: Sequence[Line]) -> float:
    return max(line.right for line in cell)
