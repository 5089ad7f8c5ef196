"""Empty cells of tables get a dash, so that the cells behind them stay in their columns."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from specextend_cli.documents.document import Edit
from specextend_cli.documents.line import EMPTY_CELL, Line
from specextend_cli.documents.repairs.repair import Pages, Repaired
from specextend_cli.documents.repairs.rows import CELLS

_ENOUGH = 3  # rows of a table
_FEWEST, _MOST = 3, 40  # columns: of two, an empty one moves nothing
_NEAR = 3.5  # sizes from row to row; a cell may have several lines
_AGREE = 0.6  # of the rows: at least so many have their cells in the columns
_LONGEST = 400  # rows

_FIGURE = re.compile(r"[($€£¥<>~≈±+−–-]{0,3}\d[\d.,:/]*[)%*\w]{0,3}$|[—–-]$|[nN]/?[aA]$")

Span = tuple[float, float]


@dataclass(frozen=True, slots=True)
class _Row:
    """A line of several cells, and the left and right end of each."""

    line: Line
    cells: tuple[str, ...]
    spans: tuple[Span, ...]


def empty_cells(pages: Pages) -> Repaired:
    """Rows with fewer cells than the table has columns get a dash for each that is missing before their last cell.

    The columns are where the fullest rows have their cells. A row with a cell that stands in two of them stays as it
    is, and so does one that may be a further line of the cells above it.
    """
    edits: list[Edit] = []
    filled: dict[int, Line] = {}  # by the id of the line it replaces
    for page in pages:
        for table in _tables(page):
            for row, line in _filled(table):
                filled[id(row.line)] = line
                edits.append(Edit("empty cell", line.page, row.line.text, line.text))
    return [[filled.get(id(line), line) for line in page] for page in pages], edits


def _tables(page: Sequence[Line]) -> Iterable[list[_Row]]:
    """Runs of rows that stand closely below each other; lines of one cell may stand between them."""
    table: list[_Row] = []
    for row in filter(None, map(_row, page)):
        above = table[-1].line if table else None
        if above and not (0 < above.base - row.line.base <= _NEAR * row.line.size and len(table) < _LONGEST):
            yield table
            table = []
        table.append(row)
    yield table


def _row(line: Line) -> _Row | None:
    cells = tuple(line.text.split(CELLS))
    if not (line.gaps and len(cells) == len(line.gaps) + 1 <= _MOST):
        return None
    edges = [line.left, *(edge for gap in line.gaps for edge in gap), line.right]
    return _Row(line, cells, tuple(zip(edges[::2], edges[1::2], strict=True)))


def _filled(table: Sequence[_Row]) -> Iterable[tuple[_Row, Line]]:
    """The rows of a table that lack cells, and what becomes of them."""
    most = max((len(row.cells) for row in table), default=0)
    if most < _FEWEST or len(table) < _ENOUGH or not _counts(table):
        return
    columns = _columns(table, most)
    placed = [(row, _places(row, columns)) for row in table]
    if sum(bool(places) for _, places in placed) < _AGREE * len(table):
        return
    for row, places in placed:
        at = dict(zip(places, row.cells, strict=False))
        cells = [at.get(place, EMPTY_CELL) for place in range(max(at, default=-1) + 1)]
        if len(cells) > len(row.cells) and _is_whole(row, cells):
            yield row, replace(row.line, text=CELLS.join(cells), gaps=())


def _counts(table: Sequence[_Row]) -> bool:
    """Whether it is no table of contents, which has figures in its last column only."""
    inner = [cell for row in table for cell in row.cells[1:-1]]
    last = [row.cells[-1] for row in table]
    listed = sum(bool(_FIGURE.match(cell)) for cell in last) > 0.5 * len(last)
    return not listed or any(map(_FIGURE.match, inner))


def _is_whole(row: _Row, cells: Sequence[str]) -> bool:
    """Whether a row is no further line of the cells above it."""
    if any(map(_FIGURE.match, row.cells)):
        return True
    return cells[0] != EMPTY_CELL and not any(cell[:1].islower() for cell in row.cells)


def _columns(table: Sequence[_Row], most: int) -> list[Span]:
    """Where the columns of a table are: those of its fullest rows, as wide as the cells that stand in them."""
    rows = sorted(table, key=lambda row: -len(row.cells))
    columns = list(rows[0].spans)
    for row in rows[1:]:
        places = _places(row, columns)
        for place, (left, right) in zip(places, row.spans, strict=False):
            low = columns[place - 1][1] if place else float("-inf")
            high = columns[place + 1][0] if place + 1 < most else float("inf")
            if low < left and right < high:
                columns[place] = min(columns[place][0], left), max(columns[place][1], right)
    return columns


def _places(row: _Row, columns: Sequence[Span]) -> list[int]:
    """The columns of a row's cells; none where a cell stands in two columns, or two cells in one."""
    found = [_place(span, columns) for span in row.spans]
    places = [place for place in found if place is not None]
    return places if len(places) == len(found) and all(a < b for a, b in pairwise(places)) else []


def _place(span: Span, columns: Sequence[Span]) -> int | None:
    """The only column that a cell stands in or, where it stands in none, the one that is much nearer than others."""
    apart = sorted((max(left - span[1], span[0] - right), at) for at, (left, right) in enumerate(columns))
    (nearest, place), (other, _) = apart[:2]
    return place if nearest < 0 <= other or 0 <= 2 * nearest < other else None
