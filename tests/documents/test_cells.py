"""Cells of tables in PDFs: those of several lines, and those that hold dots only."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from specextend_cli.documents.read import read_bytes
from tests.documents.raw_pdf import raw_pdf, show, width

ROWS = (
    ("Guest", "Stay", "Reason", "Paid"),
    ("Ada Miller", "3 nights", "Survey of the weir\nand the lower mill\nby the quay", "94.67"),
    ("Dan Ferry", "4 nights", "The report of the inspec-\ntion", "40.10"),
    ("Eve", "1 night", "Inspection", "9"),
)


def table(rows: Sequence[Sequence[str]], lefts: Sequence[float], *, last: bool) -> str:
    """The text of rows whose cells have lines around their height; `last`: cells of several lines are drawn last."""
    drawn, y = "", 700.0
    for row in rows:
        cells = [(left, cell.split("\n")) for left, cell in zip(lefts, row, strict=True)]
        most = max(len(lines) for _, lines in cells)
        for left, lines in sorted(cells, key=lambda cell: last and len(cell[1]) > 1):
            top = y - 6 * (most - len(lines))
            drawn += "".join(show(left, top - 12 * at, line, 9) for at, line in enumerate(lines))
        y -= 12 * most + 8
    return read_bytes("a.pdf", raw_pdf([drawn])).text


@pytest.mark.parametrize("last", [True, False])
def test_cells_of_several_lines_are_in_their_row(last: bool) -> None:
    wanted = ["  ".join(cell.replace("-\n", "").replace("\n", " ") for cell in row) for row in ROWS]
    assert [line for line in table(ROWS, (60, 180, 250, 400), last=last).split("\n") if line] == wanted
    prose = [("The river rises\nin the old hills", "A bridge of stone\ncrosses the water")]
    assert "hills  A bridge" not in table(prose, (60, 300), last=last)


def rows_of(rows: Sequence[Sequence[str]], lefts: Sequence[float]) -> str:
    """The text of rows whose figures end 40 points from the left ends of their columns."""
    drawn = ""
    for at, row in enumerate(rows):
        for left, cell in zip(lefts, row, strict=True):
            drawn += show(left if left == 60 else left + 40 - width(cell, 9), 700 - 14 * at, cell, 9)
    return read_bytes("a.pdf", raw_pdf([drawn])).text


def test_a_cell_of_dots_is_a_cell() -> None:
    rows = [
        ("", "2031", "2032", "2033", "Total"),
        ("Repair of the mill", "148", "........", "-71", "8"),
        ("Relief of the millers", "120", "350", "6", "9"),
        ("Northgate ferry", ". . . . . .", ". . . . . .", "259", "4,149"),
        ("Southgate ferry", "148", "259", "........", "........"),
    ]
    wanted = ["  ".join("—" if ".." in cell or ". ." in cell else cell for cell in row) for row in rows]
    assert rows_of(rows, (60, 170, 232, 294, 356)).split("\n")[1:] == wanted[1:]


def test_dots_before_a_page_number_are_a_leader() -> None:
    rows = [("1.1", "The mill", "." * 60, "7"), ("1.2", "The weir", "." * 60, "12")]
    assert "—" not in rows_of(rows, (60, 90, 290, 330))
