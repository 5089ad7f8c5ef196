"""The rows of a table as lines whose cells stand in their columns: an empty cell among others is a dash.

Cells that span rows or columns are repeated where they are short, as each of those rows and columns is about them.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count

from specextend_cli.documents.line import EMPTY_CELL

MOST_COLUMNS = 200
REPEATED = 60  # characters of a cell that is repeated
_LABEL = 60  # characters; a longer cell that stands alone in its row is a text, and its column says nothing


@dataclass(frozen=True, slots=True)
class Cell:
    """The text of a cell, and how many columns and rows it spans."""

    text: str
    columns: int = 1
    rows: int = 1


class Table:
    """Rows as they come; `lines` are those since it was last asked."""

    def __init__(self) -> None:
        self._rows: list[dict[int, str]] = []
        self._used: set[int] = set()
        self._hanging: dict[int, tuple[int, str]] = {}  # column: rows to come, text

    def add(self, cells: list[Cell]) -> None:
        """The next row: each cell takes the first column that no cell from above hangs into."""
        row: dict[int, str] = {}
        hanging: dict[int, tuple[int, str]] = {}
        free = (column for column in count() if column not in self._hanging)
        for cell in cells:
            repeated = cell.text if len(cell.text) <= REPEATED else ""
            for place in range(max(min(cell.columns, MOST_COLUMNS), 1)):
                column = next(free)
                if column >= MOST_COLUMNS and place:
                    break
                row[column] = repeated if place else cell.text
                if place == 0 and cell.text:
                    self._used.add(column)
                if cell.rows > 1 and column < MOST_COLUMNS:
                    hanging[column] = (cell.rows - 1, repeated)
        if len({text for text in row.values() if text}) > 1 or not any(cell.columns > 1 for cell in cells):
            row |= {column: text for column, (_, text) in self._hanging.items()}
        else:
            row = dict([next(((at, text) for at, text in row.items() if text), (0, ""))])  # a title between the rows
        self._hanging = {column: (left - 1, text) for column, (left, text) in self._hanging.items() if left > 1}
        self._hanging |= hanging
        self._rows.append(row)

    def lines(self) -> list[str]:
        """The rows so far, cells with a tab between, without the columns that all of them leave empty."""
        place = {column: at for at, column in enumerate(sorted(self._used))}
        made = [_line({place[column]: text for column, text in row.items() if column in place}) for row in self._rows]
        self._rows.clear()
        self._used.clear()
        return [line for line in made if line]


def _line(row: dict[int, str]) -> str:
    filled = [at for at, text in row.items() if text]
    if not filled:
        return ""
    if len(filled) == 1 and len(row[filled[0]]) > _LABEL:
        return row[filled[0]]
    return "\t".join(row.get(at, "") or EMPTY_CELL for at in range(max(filled) + 1))
