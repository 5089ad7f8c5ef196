"""Rows: join the pieces of one printed line, and mark empty table cells by a dash so that columns do not shift."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from specextend_cli.documents.document import Edit
from specextend_cli.documents.line import CELL_SEPARATOR, EMPTY_CELL, HYPHEN, Line, page_by_page, runs
from specextend_cli.documents.repairs.notes import NOTE_NUMBER

_NUMBER_GAP = 0.4  # sizes: a wider gap between two numbers is more than a space
_NUMBER_ENDS = re.compile(r"(?:\d[%)]?|(?:^|\s)[—–-])$")
_NUMBER_BEGINS = re.compile(r"[($€£¥+−–-]?\d|[—–-](?:\s|$)")
_MIN_ROWS, _MAX_ROWS = 3, 400  # of a table
_MIN_COLUMNS, _MAX_COLUMNS = 3, 40  # with two, an empty one shifts nothing
_NEAR = 3.5  # sizes from row to row; a cell may have several lines
_AGREE = 0.6  # of the rows: at least so many have their cells in the columns
_NUMBER = re.compile(r"[($€£¥<>~≈±+−–-]{0,3}\d[\d.,:/]*[)%*\w]{0,3}$|[—–-]$|[nN]/?[aA]$")

_CELL_GAP = re.compile(r"\t[ \t]*| {2,}\t?[ \t]*")
_DOTS = re.compile(r"[.·…]{5,}|[.·…](?: [.·…]){3,}")

Span = tuple[float, float]


@page_by_page
def dotted_cells(page: Sequence[Line], edits: list[Edit]) -> list[Line]:
    """Replace each cell that holds dots only by a dash; dots before a page number are a leader, and stay.

    A row with one such cell, at its end or before its last, is that of a table only if another row without dots has
    as many cells.
    """
    split = [_CELL_GAP.split(line.text) for line in page]
    widths = {len(cells) for cells in split if not any(map(_DOTS.fullmatch, cells))}
    fixed = list(page)
    for at, cells in enumerate(split):
        dotted = [place for place, cell in enumerate(cells) if _DOTS.fullmatch(cell)]
        if len(cells) > 2 and (len(dotted) > 1 or (dotted and (dotted[0] < len(cells) - 2 or len(cells) in widths))):
            texts = (EMPTY_CELL if place in dotted else cell for place, cell in enumerate(cells))
            fixed[at] = page[at]._replace(text="\t".join(texts))
            edits.append(Edit("empty cell", page[at].page, page[at].text, fixed[at].text))
    return fixed


@page_by_page
def rows(page: Sequence[Line], edits: list[Edit]) -> list[Line]:
    """Join the pieces of one printed line: words after a raised note mark, a bullet and its item, cells."""
    kept: list[Line] = []
    texts: list[str] = []  # the pieces of the last row and their separators, joined once
    gaps: list[Span] = []  # between its cells
    for line in (*page, None):
        if line and kept and (gap := _beside(kept[-1], line, alone=len(texts) == 1)) is not None:
            left = kept[-1]
            joint = _joint(left, line, gap)
            edits.append(Edit("row joined", line.page, f"{texts[-1]}\n{line.text}", f"{texts[-1]}{joint}{line.text}"))
            texts += (joint, line.text)
            gaps += [(left.right, line.left)] * (joint == CELL_SEPARATOR) + [*line.gaps]
            # The row, with the measures of one more piece and the text of that piece.
            size, base = max((left.size, left.base), (line.size, line.base))
            bold = left.bold and line.bold
            kept[-1] = left._replace(text=line.text, right=line.right, size=size, base=base, bold=bold)
            continue
        if len(texts) > 1:
            kept[-1] = kept[-1]._replace(text="".join(texts), gaps=tuple(gaps))
        if line:
            kept.append(line)
            texts, gaps = [line.text], list(line.gaps)
    return kept


def _beside(a: Line, b: Line, *, alone: bool) -> float | None:
    """The gap between `a` and `b` when `b` is to the right of `a` on the same baseline, else None.

    `a` is the last piece of its row, with the measures of the row; `alone`: the only one.
    """
    gap = b.left - a.right
    if gap < -0.3 * a.size or a.text.endswith(HYPHEN):
        return None
    if alone and NOTE_NUMBER.fullmatch(a.text):
        return gap if 0 <= a.base - b.base < 0.8 * b.size else None
    alike = abs(a.size - b.size) < 0.1 * a.size and a.bold == b.bold
    return gap if alike and abs(a.base - b.base) < (0.1 if gap > a.size else 0.45) * a.size else None


def _joint(a: Line, b: Line, gap: float) -> str:
    """The separator of two pieces: two spaces between cells; between numbers a narrow gap is enough."""
    numbers = _NUMBER_ENDS.search(a.text) and _NUMBER_BEGINS.match(b.text)
    if gap > (_NUMBER_GAP if numbers else 1.5) * a.size:
        return CELL_SEPARATOR
    one_word = gap < (0.1 if b.text[0] in ").,;:" else 0.05) * a.size  # H₂O
    return "" if one_word and not numbers and not NOTE_NUMBER.fullmatch(a.text) else " "


class _Row(NamedTuple):
    """A line of several cells, with the left and right end of each."""

    line: Line
    cells: tuple[str, ...]
    spans: tuple[Span, ...]


@page_by_page
def empty_cells(page: Sequence[Line], edits: list[Edit]) -> list[Line]:
    """Insert a dash for each cell that is missing before the last cell of a row.

    The columns are those of the rows with most cells. A row with a cell that spans two of them stays as it is, and so
    does one that may be a continuation of the cells above it.
    """

    def continues(table: list[_Row], row: _Row) -> bool:
        """True if a row is closely below the last one; lines of one cell may be between them."""
        return 0 < table[-1].line.base - row.line.base <= _NEAR * row.line.size and len(table) < _MAX_ROWS

    filled: dict[int, Line] = {}  # by the id of the line it replaces
    for table in runs(filter(None, map(_row, page)), continues):
        for row, line in _filled(table):
            filled[id(row.line)] = line
            edits.append(Edit("empty cell", line.page, row.line.text, line.text))
    return [filled.get(id(line), line) for line in page]


def _row(line: Line) -> _Row | None:
    cells = tuple(line.text.split(CELL_SEPARATOR))
    if not (line.gaps and len(cells) == len(line.gaps) + 1 <= _MAX_COLUMNS):
        return None
    edges = [line.left, *(edge for gap in line.gaps for edge in gap), line.right]
    return _Row(line, cells, tuple(zip(edges[::2], edges[1::2], strict=True)))


def _filled(table: Sequence[_Row]) -> Iterable[tuple[_Row, Line]]:
    """The rows of a table with missing cells, and their repaired lines."""
    most = max(len(row.cells) for row in table)
    if most < _MIN_COLUMNS or len(table) < _MIN_ROWS or not _has_numbers_inside(table):
        return
    columns = _columns(table, most)
    placed = [(row, _places(row, columns)) for row in table]
    if sum(bool(places) for _, places in placed) < _AGREE * len(table):
        return
    for row, places in placed:
        at = dict(zip(places, row.cells, strict=False))
        cells = [at.get(place, EMPTY_CELL) for place in range(max(at, default=-1) + 1)]
        # Without a number it may be a continuation of the cells above it.
        numbered = any(map(_NUMBER.match, row.cells))
        begins = cells[:1] != [EMPTY_CELL] and not any(cell[:1].islower() for cell in row.cells)
        if len(cells) > len(row.cells) and (numbered or begins):
            yield row, row.line._replace(text=CELL_SEPARATOR.join(cells), gaps=())


def _has_numbers_inside(table: Sequence[_Row]) -> bool:
    """True if it is no table of contents, which has figures in the last column only."""
    inner = [cell for row in table for cell in row.cells[1:-1]]
    last = [row.cells[-1] for row in table]
    listed = sum(bool(_NUMBER.match(cell)) for cell in last) > 0.5 * len(last)
    return not listed or any(map(_NUMBER.match, inner))


def _columns(table: Sequence[_Row], most: int) -> list[Span]:
    """The columns of a table: those of the rows with most cells, as wide as the cells in them."""
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
    """The columns of a row's cells; [] where a cell is in two columns, or two cells in one."""
    places = [place for span in row.spans if (place := _place(span, columns)) is not None]
    return places if len(places) == len(row.spans) and all(a < b for a, b in pairwise(places)) else []


def _place(span: Span, columns: Sequence[Span]) -> int | None:
    """The only column that a cell overlaps, or without one the column that is much nearer than the others."""
    apart = sorted((max(left - span[1], span[0] - right), at) for at, (left, right) in enumerate(columns))
    (nearest, place), (other, _) = apart[:2]
    return place if nearest < 0 <= other or 0 <= 2 * nearest < other else None
