"""Cells keep their columns: in HTML, EPUB, Word, and in PDFs also those of several lines, and of dots only."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from specextend_cli.documents.read import read_bytes
from specextend_cli.documents.sections import Cell, Table
from tests.documents.edge_case_pdfs import table as drawn_rows
from tests.documents.made_files import docx, epub, p
from tests.documents.raw_pdf import raw_pdf, show, width

STORY = "The river rose by three metres in a night, and the mill was under water by the morning."
HEAD = [Cell("Year", rows=2), Cell("Rain", columns=2), Cell("Flood", rows=2)]


@pytest.mark.parametrize(
    ("rows", "wanted"),
    [
        (["|2019|2020", "Rain||3", "Snow|4|"], ["—|2019|2020", "Rain|—|3", "Snow|4"]),
        (["|a||b", "|c||"], ["a|b", "c"]),  # empty columns are none
        (["|", []], []),
        (["a|b|c", f"|{STORY}|"], ["a|b|c", STORY]),  # a text beside empty cells is a text
        ([HEAD, "mm|days", "19|812|90|-"], ["Year|Rain|Rain|Flood", "Year|mm|days|Flood", "19|812|90|-"]),
        (["a|b", [Cell("The north", columns=2)], "d|e"], ["a|b", "The north", "d|e"]),
        ([[Cell(STORY, rows=2), Cell("a")], "b"], [f"{STORY}|a", "—|b"]),  # too long to be repeated
    ],
    ids=["empty cells", "empty columns", "nothing", "text", "spans", "title", "long"],
)
def test_cells_keep_their_places(rows: list[str | list[Cell]], wanted: list[str]) -> None:
    made = Table()
    for row in rows:
        made.add([Cell(text) for text in row.split("|")] if isinstance(row, str) else row)
    assert [line.replace("\t", "|") for line in made.lines()] == wanted


@pytest.mark.parametrize("cell", [Cell("x", columns=10**9, rows=10**9), Cell("x", columns=-1, rows=0)])
def test_absurd_spans_are_bounded(cell: Cell) -> None:
    table = Table()
    for _ in range(200):
        table.add([cell] * 200)
    assert sum(map(len, table.lines())) < 1_000_000


def test_spans_and_empty_cells_of_pages_books_and_word() -> None:
    spans = (
        "<table><tr><th rowspan=2>Year<th colspan=2>Rain</tr><tr><th>mm<th>days</tr>"
        "<tr><td rowspan=2>2019<td>812<td>90</tr><tr><td><td>7</table>"
    )
    rows_below = "Year  mm  days\n2019  812  90\n2019  —  7"
    for name, data in (("a.html", f"<html><body>{spans}".encode()), ("a.epub", epub({"a.html": spans}))):
        assert read_bytes(name, data).text == f"Year  Rain  Rain\n{rows_below}"

    def cell(text: str, properties: str = "") -> str:
        return f"<w:tc><w:tcPr>{properties}</w:tcPr>{p(text)}</w:tc>"

    first, more = '<w:vMerge w:val="restart"/>', "<w:vMerge/>"
    rows = (
        cell("Year", first) + cell("Rain", '<w:gridSpan w:val="2"/>'),
        cell("", more) + cell("mm") + cell("days"),
        cell("2019", first) + cell("812") + cell("90"),
        cell("", more) + cell("") + cell("7"),
        '<w:trPr><w:gridBefore w:val="1"/></w:trPr>' + cell("9") + cell("8"),
    )
    body = "<w:tbl>" + "".join(f"<w:tr>{row}</w:tr>" for row in rows) + "</w:tbl>"
    assert read_bytes("a.docx", docx(body)).text == f"Year  Rain\n{rows_below}\n—  9  8"


# --------------------------------------------------------------------------------------------------------------- PDFs

ROWS = (
    ("Guest", "Stay", "Reason", "Paid"),
    ("Ada Miller", "3 nights", "Survey of the weir\nand the lower mill\nby the quay", "94.67"),
    ("Dan Ferry", "4 nights", "The report of the inspec-\ntion", "40.10"),
    ("Eve", "1 night", "Inspection", "9"),
)


def drawn_table(rows: Sequence[Sequence[str]], lefts: Sequence[float], *, last: bool) -> str:
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
    assert [line for line in drawn_table(ROWS, (60, 180, 250, 400), last=last).split("\n") if line] == wanted
    prose = [("The river rises\nin the old hills", "A bridge of stone\ncrosses the water")]
    assert "hills  A bridge" not in drawn_table(prose, (60, 300), last=last)


def test_a_cell_of_dots_is_a_cell() -> None:
    rows = [
        ("", "2031", "2032", "2033", "Total"),
        ("Repair of the mill", "148", "........", "-71", "8"),
        ("Relief of the millers", "120", "350", "6", "9"),
        ("Northgate ferry", ". . . . . .", ". . . . . .", "259", "4,149"),
        ("Southgate ferry", "148", "259", "........", "........"),
    ]
    wanted = ["  ".join("—" if ".." in cell or ". ." in cell else cell for cell in row) for row in rows]
    text = read_bytes("a.pdf", drawn_rows(rows, 210, 272, 334, 396)).text
    assert text.split("\n")[1:] == wanted[1:]


def test_dots_before_a_page_number_are_a_leader() -> None:
    rows = [("1.1", "The mill", "." * 60, "7"), ("1.2", "The weir", "." * 60, "12")]
    assert "—" not in read_bytes("a.pdf", drawn_rows(rows, 130, 340, 370)).text


def test_wide_spaces_of_a_justified_heading_are_no_gaps() -> None:
    words, x, drawn = ["1.2", "The", "mill", "and", "the", "weir", "are", "bought", "by", "the", "town"], 72.0, ""
    for word in words:
        drawn += show(x, 700, word)
        x += width(word, 12) + (24 if word == words[0] else 12)
    assert read_bytes("a.pdf", raw_pdf([drawn])).text == " ".join(words)


def test_a_number_at_the_start_of_a_row_is_a_cell() -> None:
    """Unless it is the label of a text near it."""
    far = [("0", "138", "6.9"), ("(1)", "(2)", "(3)"), ("1", "Ferry", "8.5"), ("12", "7", "4.20")]
    assert read_bytes("a.pdf", drawn_rows(far, 250, 330)).text == "\n".join(map("  ".join, far))
    near = [("1", "Mill"), ("2.", "3 weirs"), ("(3)", "Ferry")]
    assert read_bytes("a.pdf", drawn_rows(near, 123)).text == " ".join(map(" ".join, near))
