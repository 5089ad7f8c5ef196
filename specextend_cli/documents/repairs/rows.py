"""Rows: join the pieces of one printed line and the lines of its cells, and mark empty table cells by a dash."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache, reduce
from itertools import chain, pairwise

from specextend_cli.documents.document import Edit
from specextend_cli.documents.line import CELL_SEPARATOR, EMPTY_CELL, HYPHEN, Line, Pages, page_by_page, pieces, runs
from specextend_cli.documents.repairs.hyphens import compounds, joined
from specextend_cli.documents.repairs.notes import NOTE_NUMBER

_STEP = 1.5  # sizes from line to line of a cell
_NEARER = 0.9  # sizes: lines of text are further apart
_LEVEL = 0.12  # sizes: how much steps may differ, and the middle of a cell be above or below its row
_LEAST, _MOST = 3, 100  # cells in a row, and lines in a cell
_WORD = re.compile(r"[^\W\d_]{4}")  # the parts of a fraction have none
_NUMBER_GAP = 0.4  # sizes: a wider gap between two numbers is more than a space
_NUMBER_ENDS = re.compile(r"(?:\d[%)]?|(?:^|\s)[—–-])$")
_NUMBER_BEGINS = re.compile(r"[($€£¥+−–-]?\d|[—–-](?:\s|$)")
_MIN_ROWS = 3  # of a table
_MIN_COLUMNS, _MAX_COLUMNS = 3, 40  # with two, an empty one shifts nothing
_NEAR = 3.5  # sizes from row to row; a cell may have several lines
_NUMBER = re.compile(r"[($€£¥<>~≈±+−–-]{0,3}\d[\d.,:/]*[)%*\w]{0,3}$|[—–-]$|[nN]/?[aA]$")

_Row = tuple[Line, list[Line]]
"""A line, and its cells."""


def wrapped_cells(pages: Pages, edits: list[Edit]) -> list[list[Line]]:
    """Join the lines of each cell whose middle, or first line, is at the height of its row, and these cells."""
    known = cache(lambda: compounds(pages))

    def text_of(cell: Sequence[Line]) -> str:
        return reduce(lambda text, following: joined(text, following, known()), (line.text for line in cell))

    def row_of(row: list[list[Line]]) -> list[Line]:
        lines = [line for cell in row for line in cell]
        split = ([[piece] for piece in pieces(cell[0])] if len(cell) == 1 else [cell] for cell in row)
        parts = sorted((cell for cells in split for cell in cells), key=_left)
        columns = runs(parts, lambda column, part: _left(part) < max(map(_right, column)))
        cells = [sorted(chain(*column), key=lambda line: -line.base) for column in columns]
        if not _is_row(cells):
            return lines
        gaps = tuple((_right(a), _left(b)) for a, b in pairwise(cells))
        text = "\t".join(map(text_of, cells))
        edits.append(Edit("cell joined", lines[0].page, "\n".join(line.text for line in lines), text))
        base = next(cell[0].base for cell in cells if len(cell) == 1)
        return [lines[0]._replace(text=text, left=_left(cells[0]), right=_right(cells[-1]), base=base, gaps=gaps)]

    return [[line for row in runs(runs(page, _goes_on), _is_level) for line in row_of(row)] for page in pages]


def _goes_on(cell: Sequence[Line], line: Line) -> bool:
    """True if a line is the next one of a cell: in equal steps, and at its left, right or middle."""
    last = cell[-1]
    step = last.base - line.base
    alike = (last.size, last.bold, last.slanted) == (line.size, line.bold, line.slanted) and line.size != 1
    if last.gaps or line.gaps or not alike or len(cell) > _MOST or not 0 < step < _STEP * line.size:
        return False
    left, right = abs(last.left - line.left), abs(last.right - line.right)
    middle = abs(last.left + last.right - line.left - line.right) / 2
    even = len(cell) == 1 or abs(cell[-2].base - last.base - step) < _LEVEL * line.size
    return min(left, right, middle) < line.size and even


def _is_level(row: Sequence[Sequence[Line]], cell: Sequence[Line]) -> bool:
    """True if the middle, or the first line, of a cell is at the height of that of the first cell of the row.

    Lines with cells that are nearer to each other than lines of text are of one row too.
    """
    first, size = row[0], cell[0].size
    level = abs(first[0].base - cell[0].base)
    near = len(first) == len(cell) == 1 and (first[0].gaps or cell[0].gaps) and level < _NEARER * size
    apart = 0.0 if near else min(abs(_middle(first) - _middle(cell)), level)
    return len(row) < _MOST and max(apart, abs(first[0].size - size)) < _LEVEL * size


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


@page_by_page
def rows(page: Sequence[Line], edits: list[Edit]) -> list[Line]:
    """Join the pieces of one printed line: words after a raised note mark, a bullet and its item, cells."""
    return [_row_of(run, edits) for run in runs(page, lambda run, line: _is_beside(run[-1], line))]


def _is_beside(a: Line, b: Line) -> bool:
    """True if `b` is to the right of `a` on the same baseline, in the same type."""
    gap = b.left - a.right
    if gap < -0.3 * a.size or a.text.endswith(HYPHEN):
        return False
    if NOTE_NUMBER.fullmatch(a.text):
        return 0 <= a.base - b.base < 0.8 * b.size
    alike = abs(a.size - b.size) < 0.1 * a.size and a.bold == b.bold
    return alike and abs(a.base - b.base) < (0.1 if gap > a.size else 0.45) * a.size


def _row_of(run: Sequence[Line], edits: list[Edit]) -> Line:
    """The pieces of a row as one line."""
    first, text = run[0], run[0].text
    gaps = [*first.gaps]
    for a, b in pairwise(run):
        joint = _joint(a, b)
        text += joint + b.text
        gaps += [(a.right, b.left)] * (joint == CELL_SEPARATOR) + [*b.gaps]
    size, base = max((line.size, line.base) for line in run)
    if len(run) > 1:
        edits.append(Edit("row joined", first.page, "\n".join(line.text for line in run), text))
    return first._replace(text=text, right=run[-1].right, size=size, base=base, gaps=tuple(gaps))


def _joint(a: Line, b: Line) -> str:
    """The separator of two pieces: two spaces between cells; between numbers a narrow gap is enough."""
    gap = b.left - a.right
    numbers = _NUMBER_ENDS.search(a.text) and _NUMBER_BEGINS.match(b.text)
    if gap > (_NUMBER_GAP if numbers else 1.5) * a.size:
        return CELL_SEPARATOR
    one_word = gap < (0.1 if b.text[0] in ").,;:" else 0.05) * a.size  # H₂O
    return "" if one_word and not numbers and not NOTE_NUMBER.fullmatch(a.text) else " "


@page_by_page
def empty_cells(page: Sequence[Line], edits: list[Edit]) -> list[Line]:
    """Insert a dash for each cell that is missing before the last cell of a row.

    The columns are those of the rows with most cells. A row with a cell that spans two of them stays as it is, and so
    does one that may be a continuation of the cells above it.
    """

    def continues(table: list[_Row], row: _Row) -> bool:
        """True if a row is closely below the last one; lines of one cell may be between them."""
        return 0 < table[-1][0].base - row[0].base <= _NEAR * row[0].size

    filled: dict[int, Line] = {}  # by the id of the line it replaces
    rows = ((line, pieces(line)) for line in page)
    for table in runs((row for row in rows if 1 < len(row[1]) <= _MAX_COLUMNS), continues):
        for line, text in _filled(table):
            filled[id(line)] = line._replace(text=text, gaps=())
            edits.append(Edit("empty cell", line.page, line.text, text))
    return [filled.get(id(line), line) for line in page]


def _filled(table: Sequence[_Row]) -> Iterable[tuple[Line, str]]:
    """The rows of a table with missing cells, and their repaired texts."""
    most = max(len(cells) for _, cells in table)
    full = zip(*(cells for _, cells in table if len(cells) == most), strict=True)
    columns = [(min(cell.left for cell in column), max(cell.right for cell in column)) for column in full]
    apart = all(a[1] < b[0] for a, b in pairwise(columns))
    if most < _MIN_COLUMNS or len(table) < _MIN_ROWS or not apart or not _has_numbers_inside(table):
        return
    for line, found in table:
        at = {place: cell.text for cell in found if (place := _place(cell, columns)) is not None}
        cells = [at.get(place, EMPTY_CELL) for place in range(max(at, default=-1) + 1)]
        # Without a number it may be a continuation of the cells above it.
        begins = cells[:1] != [EMPTY_CELL] and not any(cell.text[:1].islower() for cell in found)
        if len(at) == len(found) < len(cells) and (begins or any(_NUMBER.match(cell.text) for cell in found)):
            yield line, CELL_SEPARATOR.join(cells)


def _place(cell: Line, columns: Sequence[tuple[float, float]]) -> int | None:
    """The only column that a cell overlaps, or without one the column that is much nearer than the others."""
    apart = sorted((max(left - cell.right, cell.left - right), at) for at, (left, right) in enumerate(columns))
    (nearest, place), (other, _) = apart[:2]
    return place if nearest < 0 <= other or 0 <= 2 * nearest < other else None


def _has_numbers_inside(table: Sequence[_Row]) -> bool:
    """True if it is no table of contents, which has figures in the last column only."""
    listed = sum(_NUMBER.match(cells[-1].text) is not None for _, cells in table) > 0.5 * len(table)
    return not listed or any(_NUMBER.match(cell.text) for _, cells in table for cell in cells[1:-1])
