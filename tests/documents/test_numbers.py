"""Every number of a table comes out whole, however it is kerned and drawn, and the cells stay apart."""

from __future__ import annotations

from itertools import accumulate

from specextend_cli.documents.read import read_bytes
from tests.documents.raw_pdf import raw_pdf, show, show_apart, width


def test_digits_kerned_at_one_place_in_all_rows_are_no_columns() -> None:
    content = show(72, 720, "All numbers in thousands of dollars of the year", 8)
    values = ("14,918,000", "17,628,000", "11,347,000", "12,745,000")
    for row, value in enumerate(values):
        content += show(72, 700 - 12 * row, f"Item {'ABCD'[row]}", 8)
        parts = f"({value[0]}) -30 ({value[1:5]}) -30 ({value[5:]})"
        content += f"BT /F0 8 Tf 172 {700 - 12 * row} Td [{parts}] TJ ET\n"
    lines = read_bytes("a.pdf", raw_pdf([content])).text.split("\n")
    assert lines[2:] == [f"Item {'ABCD'[row]}  {value}" for row, value in enumerate(values)]


def test_letter_spaced_numbers_are_whole() -> None:
    """All digits are further apart than the letters beside them."""
    content = ""
    for row, value in enumerate(("12:15:45", "12:16:45", "13:10:05", "09:41:30")):
        places = accumulate((width(letter, 12) + 1.44 for letter in value), initial=240.0)
        content += show(72, 700 - 14 * row, f"Reading {'ABCD'[row]} of the mill")
        content += show_apart(list(zip(places, value, strict=False)), 700 - 14 * row, 12)
    lines = read_bytes("a.pdf", raw_pdf([content])).text.split("\n")
    assert [line.split("  ")[-1] for line in lines] == ["12:15:45", "12:16:45", "13:10:05", "09:41:30"]
