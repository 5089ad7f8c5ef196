"""Tables of typed values (CSV, TSV) to Markdown: a line for each row, and its texts below it as paragraphs."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from io import StringIO

_SAMPLE = 4_096  # characters
_DELIMITERS = ",;\t|"
_ROWS, _LEAST_ROWS, _LEAST_CELLS = 50, 3, 3
_LONG = 80  # characters; a longer cell is a text


def is_delimited(text: str) -> bool:
    """Whether a text without a name is such a table: its first lines are rows of equally many cells, three or more."""
    lines = text[:_SAMPLE].splitlines()[:_ROWS]
    lines = lines[:-1] if len(text) > _SAMPLE and len(lines) < _ROWS else lines  # the last one may be cut
    widths = [{len(row) for row in csv.reader(lines, delimiter=one) if row} for one in _DELIMITERS]
    return len(lines) >= _LEAST_ROWS and any(len(found) == 1 and min(found) >= _LEAST_CELLS for found in widths)


def as_markdown(text: str) -> str:
    """The rows with "|" between their cells; the text itself where it is no table."""
    try:
        dialect = csv.Sniffer().sniff(text[:_SAMPLE].rpartition("\n")[0] or text[:_SAMPLE], _DELIMITERS)
        rows = list(csv.reader(StringIO(text, newline=""), dialect))
    except csv.Error:
        return text
    return "\n".join(line for row in rows for line in _lines([" ".join(cell.split()) for cell in row]))


def _lines(cells: list[str]) -> Iterator[str]:
    short = ["" if len(cell) > _LONG else cell for cell in cells]
    if any(short):
        yield f"| {' | '.join(short)} |"
    for cell in cells:
        if len(cell) > _LONG:
            yield from ("", cell, "")
