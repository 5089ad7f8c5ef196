"""The rows of a table as lines with tabs between cells; an empty cell before others is a dash.

Short cells that span rows or columns are repeated in each of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count

from specextend_cli.documents.line import EMPTY_CELL

MAX_COLUMNS = 200
REPEATED = 60  # characters; a longer cell is not repeated
_LABEL = 60  # characters; a longer cell alone in its row is text, whatever its column


@dataclass(frozen=True, slots=True)
class Cell:
    """The text of a cell, and the number of columns and rows it spans."""

    text: str
    columns: int = 1
    rows: int = 1


class Table:
    """Rows are added one by one; `lines` returns those since its last call.

    Without `repeat_columns` a cell over several columns is written once, and the others have nothing, not even a dash.
    """

    def __init__(self, *, repeat_columns: bool = True) -> None:
        self._repeat_columns = repeat_columns
        self._rows: list[dict[int, str | None]] = []  # None: part of the cell before
        self._used: set[int] = set()
        self._spanning: dict[int, tuple[int, str]] = {}  # column: (further rows, text)

    def add(self, cells: list[Cell]) -> None:
        """The next row: each cell takes the first column without a cell that spans rows."""
        row: dict[int, str | None] = {}
        spanning: dict[int, tuple[int, str]] = {}
        free = (column for column in count() if column not in self._spanning)
        for cell in cells:
            repeated = cell.text if len(cell.text) <= REPEATED else ""
            for place in range(max(min(cell.columns, MAX_COLUMNS), 1)):
                column = next(free)
                if column >= MAX_COLUMNS and place:
                    break
                row[column] = (repeated if self._repeat_columns else None) if place else cell.text
                if place == 0 and cell.text:
                    self._used.add(column)
                if cell.rows > 1 and column < MAX_COLUMNS:
                    spanning[column] = (cell.rows - 1, repeated)
        if len({text for text in row.values() if text}) > 1 or not any(cell.columns > 1 for cell in cells):
            row |= {column: text for column, (_, text) in self._spanning.items()}
        else:
            row = dict([next(((at, text) for at, text in row.items() if text), (0, ""))])  # a title between the rows
        self._spanning = {column: (left - 1, text) for column, (left, text) in self._spanning.items() if left > 1}
        self._spanning |= spanning
        self._rows.append(row)

    def lines(self) -> list[str]:
        """The rows so far, without columns that are empty in all of them."""
        place = {column: at for at, column in enumerate(sorted(self._used))}
        made = [_line({place[column]: text for column, text in row.items() if column in place}) for row in self._rows]
        self._rows.clear()
        self._used.clear()
        return [line for line in made if line]


def _line(row: dict[int, str | None]) -> str:
    filled = {at: text for at, text in row.items() if text}
    if not filled:
        return ""
    if len(filled) == 1 and len(text := next(iter(filled.values()))) > _LABEL:
        return text
    cells = (row.get(at, "") for at in range(max(filled) + 1))
    return "\t".join(text or EMPTY_CELL for text in cells if text is not None)
