"""Cells keep their columns: in HTML, EPUB and Word."""

from __future__ import annotations

import pytest

from specextend_cli.documents.read import read_bytes
from specextend_cli.documents.sections import Cell, Table
from tests.documents.made_files import docx, epub, p


def lines(*rows: list[Cell]) -> list[str]:
    made = Table()
    for row in rows:
        made.add(row)
    return [line.replace("\t", "|") for line in made.lines()]


def cells(*texts: str) -> list[Cell]:
    return [Cell(text) for text in texts]


def test_an_empty_cell_keeps_its_place() -> None:
    assert lines(cells("", "2019", "2020"), cells("Rain", "", "3"), cells("Snow", "4", "")) == [
        "—|2019|2020",
        "Rain|—|3",
        "Snow|4",
    ]


def test_columns_that_are_empty_throughout_are_none() -> None:
    assert lines(cells("", "a", "", "b"), cells("", "c", "", "")) == ["a|b", "c"]
    assert lines(cells("", ""), cells()) == []


def test_a_text_beside_empty_cells_is_a_text() -> None:
    story = "The river rose by three metres in a night, and the mill was under water by the morning."
    assert lines(cells("a", "b", "c"), cells("", story, "")) == ["a|b|c", story]


def test_cells_over_several_columns_and_rows_are_repeated() -> None:
    head = [Cell("Year", rows=2), Cell("Rain", columns=2), Cell("Flood", rows=2)]
    assert lines(head, cells("mm", "days"), cells("2019", "812", "90", "none")) == [
        "Year|Rain|Rain|Flood",
        "Year|mm|days|Flood",
        "2019|812|90|none",
    ]
    title = [Cell("The north", columns=3)]
    assert lines(cells("a", "b", "c"), title, cells("d", "e", "f")) == ["a|b|c", "The north", "d|e|f"]
    long = "A cell with more words than anybody would want to read again in each of its rows."
    assert lines([Cell(long, rows=2), Cell("a")], cells("b")) == [f"{long}|a", "—|b"]


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
