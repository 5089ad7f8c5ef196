"""Documents whose pages are alike keep their figures, and what cleaning did not dare to remove is said."""

from __future__ import annotations

from specextend_cli.documents.read import read_bytes
from tests.documents.made_pdfs import Sheets


def test_invoices_in_one_file_keep_their_figures(sheets: Sheets) -> None:
    said = [
        (f"Invoice {1000 + n}", f"Date: {n} May 2024", "Delivered to Paris", f"Total: {117 * n}.25")
        for n in range(1, 6)
    ]
    for lines in said:
        sheets.page([(line, 11, 20) for line in lines])
    document = read_bytes("invoices.pdf", sheets.data())
    assert all(line in document.text for lines in said for line in lines)
    assert not document.extraction.warnings


def test_copies_of_one_page_hold_text(sheets: Sheets) -> None:
    for _ in range(4):
        sheets.page([("Receipt", 11, 20), ("Paid in full: 120.00", 11, 20)])
    document = read_bytes("copies.pdf", sheets.data())
    assert document.text.count("120.00") == 4
    assert document.extraction.changes["running head kept"] == 8
    assert "Pages 1-4" in document.extraction.warnings[0]


def test_a_text_file_of_short_pages_keeps_its_figures() -> None:
    pages = [f"Order 77{n}\n\nDelivered to Paris\n\nTotal {100 + 7 * n}.00\n" for n in range(6)]
    text = read_bytes("orders.txt", "\f".join(pages).encode()).text
    assert all(line in text for page in pages for line in page.split("\n"))


def test_a_text_file_of_numbers_keeps_them() -> None:
    document = read_bytes("levels.txt", b"12\f13\f14\f15")
    assert document.text.split() == ["12", "13", "14", "15"]
    assert document.extraction.warnings
