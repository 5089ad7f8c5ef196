"""Tables of typed values (CSV, TSV): a line for each row, with two spaces between its cells."""

from __future__ import annotations

import csv
from io import StringIO

from specextend_cli.documents.line import CELL_SEPARATOR

_DELIMITERS = ",;\t|"
_SAMPLE = 4_096  # characters
_ROWS, _LEAST_ROWS, _LEAST_CELLS = 50, 3, 3


def is_table(text: str) -> bool:
    """Whether a text without a name is such a table: its first lines are rows of equally many cells, three or more."""
    lines = text[:_SAMPLE].splitlines()[:_ROWS]
    lines = lines[:-1] if len(text) > _SAMPLE and len(lines) < _ROWS else lines  # the last one may be cut
    widths = [{len(row) for row in csv.reader(lines, delimiter=one) if row} for one in _DELIMITERS]
    return len(lines) >= _LEAST_ROWS and any(len(found) == 1 and min(found) >= _LEAST_CELLS for found in widths)


def table_rows(text: str) -> str:
    """The rows of a table; the text itself where it is none."""
    try:
        dialect = csv.Sniffer().sniff(text[:_SAMPLE].rpartition("\n")[0] or text[:_SAMPLE], _DELIMITERS)
        rows = list(csv.reader(StringIO(text, newline=""), dialect))
    except csv.Error:
        return text
    return "\n".join(CELL_SEPARATOR.join(" ".join(cell.split()) for cell in row) for row in rows)
