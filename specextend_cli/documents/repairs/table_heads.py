"""Heads of tables that every page repeats: the first one stays, where its table begins at the top of a page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence, Set
from itertools import pairwise

from specextend_cli.documents.line import Line, Pages, runs

_LEVEL = 0.1  # sizes between the base lines of the cells of a row
_STEP = 0.1  # of the step from row to row: how much it may differ
_ROWS = 3  # below a head
_EDGE = 12  # lines at the top of a page: the head, and the cells of those rows


def first_heads(pages: Pages, removed: Set[int]) -> set[int]:
    """The ids of those `removed` lines that are the head of a table, and repeat no earlier line."""
    counts = Counter(line.text for page in pages for line in page if id(line) in removed)
    known, found = set[str](), set[int]()
    for page in pages:
        top = sorted(page, key=lambda line: -line.base)[:_EDGE]
        end = next((at for at, line in enumerate(top) if id(line) not in removed), 0)
        head = [line for line in top[:end] if counts[line.text] > 1]
        if head and not known.intersection(line.text for line in head):
            rows = [head, *runs(top[end:], lambda row, line: row[0].base - line.base <= _LEVEL * line.size)]
            if _are_rows(rows[: _ROWS + 1]):
                found.update(map(id, head))
        known.update(line.text for line in page)
    return found


def _are_rows(rows: Sequence[Sequence[Line]]) -> bool:
    """True if rows in one type and in equal steps follow a head: all but the head have several cells."""
    head, *others = rows
    if len(others) < _ROWS or head[0].size == 1 or min(len(row) + len(row[0].gaps) for row in others) < 2:
        return False
    cells = [cell for row in others for cell in row]
    size, steps = head[-1].size, [above[-1].base - row[0].base for above, row in pairwise(rows)]
    left, right = min(cell.left for cell in cells) - size, max(cell.right for cell in cells) + size
    in_step = all(abs(step - steps[-1]) < _STEP * steps[-1] for step in steps)
    return in_step and all(
        left < line.left and line.right < right and abs(line.size - cells[0].size) < _LEVEL * size for line in head
    )
