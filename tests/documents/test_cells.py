"""Cells of tables in PDFs: those of several lines, and those that hold dots only."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from specextend_cli.documents.read import read_bytes
from tests.documents.raw_pdf import raw_pdf, show, width

HEAD = ("Guest", "Stay", "Reason", "Paid")
STEP = 12


def table(rows: Sequence[Sequence[str]], lefts: Sequence[float], *, last: bool = False) -> str:
    """Rows whose cells have lines, one below the other, around the height of their row.

    With `last`, the cells of several lines of a row are drawn after the others.
    """
    drawn, y = "", 700.0
    for row in rows:
        cells = [(left, cell.split("\n")) for left, cell in zip(lefts, row, strict=True)]
        most = max(len(lines) for _, lines in cells)
        for left, lines in sorted(cells, key=lambda cell: last and len(cell[1]) > 1):
            top = y - STEP * (most - len(lines)) / 2
            drawn += "".join(show(left, top - STEP * at, line, 9) for at, line in enumerate(lines))
        y -= STEP * most + 8
    return drawn


WRAPPED = {
    "two": [
        ("Ada Miller", "3 nights", "Survey of the weir\nand the lower mill", "94.67"),
        ("Ben", "1 night", "Fair", "71"),
    ],
    "three": [("Cora Dell", "9 nights", "Repair of the\nupper bridge\nand the quay", "310.00")],
    "divided": [
        ("Dan Ferry", "4 nights", "The report of the inspec-\ntion", "40.10"),
        ("Eve", "1 night", "No inspection", "9"),
    ],
}


@pytest.mark.parametrize("name", WRAPPED)
@pytest.mark.parametrize("last", [True, False])
def test_cells_of_several_lines_are_in_their_row(name: str, last: bool) -> None:
    rows = [HEAD, *WRAPPED[name]]
    document = read_bytes("a.pdf", raw_pdf([table(rows, (60, 180, 250, 400), last=last)]))
    wanted = ["  ".join(cell.replace("-\n", "").replace("\n", " ") for cell in row) for row in rows]
    assert [line for line in document.text.split("\n") if line] == wanted


def test_columns_of_prose_and_labels_are_no_rows() -> None:
    prose = [("The river rises\nin the old hills", "A bridge of stone\ncrosses the water")]
    document = read_bytes("a.pdf", raw_pdf([table(prose, (60, 300))]))
    assert "hills  A bridge" not in document.text


DOTS = {
    "middle": [
        ("Repair of the mill", "148", "........", "-71", "8"),
        ("Relief of the millers", "120", "350", "........", "9"),
    ],
    "spaced": [
        ("Repair of the mill", ". . . . . .", ". . . . . .", "259", "6"),
        ("Relief of the millers", "1", "2", "3", "148"),
    ],
    "before the last": [
        ("Repair of the mill", "148", "259", "........", "8"),
        ("Relief of the millers", "120", "350", "6", "9"),
    ],
    "at the end": [
        ("Repair of the mill", "148", "259", "........", "........"),
        ("Relief of the millers", "120", "350", "6", "9"),
    ],
}


@pytest.mark.parametrize("name", DOTS)
def test_a_cell_of_dots_is_a_cell(name: str) -> None:
    rows = [("", "2031", "2032", "2033", "Total"), *DOTS[name], ("Northgate ferry", "699", "709", "700", "4,149")]
    drawn = ""
    for at, row in enumerate(rows):
        for left, cell in zip((60, 170, 232, 294, 356), row, strict=True):
            drawn += show(left if left == 60 else left + 40 - width(cell, 9), 700 - 14 * at, cell, 9)
    text = read_bytes("a.pdf", raw_pdf([drawn])).text
    assert text.split("\n")[1:-1] == [
        "  ".join("—" if ".." in c or ". ." in c else c for c in row) for row in DOTS[name]
    ]


def test_dots_before_a_page_number_are_a_leader() -> None:
    rows = [("1.1", "The mill", "." * 60, "7"), ("1.2", "The weir", "." * 60, "12")]
    lines = "".join(
        show(left, 700 - 14 * at, cell, 9)
        for at, row in enumerate(rows)
        for left, cell in zip((60, 90, 150, 330), row, strict=True)
    )
    assert "—" not in read_bytes("a.pdf", raw_pdf([lines])).text
