"""The wide spaces of narrow justified columns are spaces, and those between cells are not."""

from __future__ import annotations

from collections.abc import Sequence

from specextend_cli.documents.read import read_bytes
from tests.documents.made_pdfs import Sheets, wrap

STORY = (
    "The harbour council met on Tuesday evening to consider the proposal of a second breakwater. Engineers presented "
    "three variants to the council, and their representatives measured the currents. Nevertheless the regional "
    "administration hesitated, because fishermen warned that dredging would disturb the herring."
)
WIDTH = 120


def drawn(lines: Sequence[tuple[str, float]]) -> str:
    """The text of a PDF of these lines, each with what is added to each of its spaces."""
    sheets = Sheets()
    for row, (line, wider) in enumerate(lines):
        text = sheets.canvas.beginText(72, 700 - 12 * row)
        text.setFont("Helvetica", 10)
        text.setWordSpace(wider)
        text.textOut(line)
        sheets.canvas.drawText(text)
    sheets.canvas.showPage()
    return read_bytes("a.pdf", sheets.data()).text


def justified(story: str) -> list[tuple[str, float]]:
    lines = wrap(story, 27)
    measure = Sheets().canvas.stringWidth
    return [
        (line, 0.0 if line == lines[-1] else (WIDTH - measure(line, "Helvetica", 10)) / line.count(" "))
        for line in lines
    ]


def test_a_narrow_column_has_no_cells() -> None:
    lines = justified(STORY)
    assert sum(wider > 10 for _, wider in lines) >= 3  # more than the size of its type
    assert drawn(lines) == STORY


def test_rows_of_equal_cells_stay_rows() -> None:
    rows = [("Mill  31  24", 20.0), ("Ford  15  62", 20.0), ("Quay  87  93", 20.0)]
    assert drawn([(row.replace("  ", " "), wider) for row, wider in rows]).split("\n") == [row for row, _ in rows]
