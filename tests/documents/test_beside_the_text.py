"""What a PDF holds beside its text: fields, annotations, page labels; and text that cannot be read."""

from __future__ import annotations

import pytest

from specextend_cli.documents.errors import page_label
from specextend_cli.documents.pdf.forms import Annotation, insert_annotations
from specextend_cli.documents.pdf.legibility import unreadable_share
from specextend_cli.documents.read import read_bytes
from tests.documents.edge_cases import refusal
from tests.documents.made_forms import form_bytes, labelled_bytes, unmapped_bytes
from tests.documents.made_pdfs import SENTENCES, report_bytes
from tests.documents.raw_pdf import raw_pdf, show


def test_fields_and_annotations_are_read_where_they_stand() -> None:
    document = read_bytes("form.pdf", form_bytes())
    lines = [" ".join(line.split()) for line in document.text.split("\n") if line]
    assert lines == [
        *("Application", "Name: Ada Lovelace", "Sum: 12,500 EUR", "[x] Married", "Owner", "City: Paris"),
        *("Received in May", "The last line.", "Remarks: None so far"),
    ]
    changes = document.extraction.changes
    assert (changes["form field"], changes["text box"], changes["note"]) == (5, 1, 0)


def test_a_page_of_fields_alone_has_text() -> None:
    field = Annotation("form field", "12,500 EUR", "Sum", 100, 700, 300, 720)
    assert [line.text for line in insert_annotations([], [field], 1)] == ["Sum: 12,500 EUR"]


def test_page_labels_stand_beside_the_numbers() -> None:
    document = read_bytes("report.pdf", labelled_bytes(report_bytes(5), 2))
    assert [page.label for page in document.pages] == ["i", "ii", "A-1", "A-2", "A-3"]
    assert [page.number for page in document.pages] == [1, 2, 3, 4, 5]
    assert [page.label for page in read_bytes("report.pdf", report_bytes(3)).pages] == ["", "", ""]
    assert page_label("3", 3) == page_label(" \n", 3) == ""
    assert page_label("\x1b[31m1] (2) " + "x" * 99, 3) == "�31m1 2 " + "x" * 12


def shifted(text: str) -> str:
    """As a font without a text encoding often comes out."""
    return "".join(chr(ord(letter) - 29) if letter != " " else letter for letter in text)


PROSE = " ".join(SENTENCES * 2)


@pytest.mark.parametrize(
    ("text", "share"),
    [
        (PROSE, 0),
        ("ACGT" * 100 + "XKRT PLN CZK HRK BGN " * 20, 0),
        ("Город стоит на реке. " * 20, 0),
        ("洪水" * 100, 0),
        ("The level \x01 fell", 0),  # damage, not gibberish
        (shifted(PROSE), 1),
        ("\x01\x0f\x11 " * 30, 1),
    ],
)
def test_what_cannot_be_read(text: str, share: float) -> None:
    assert unreadable_share([text]) == share


def gibberish(letters: str) -> bytes:
    codes = {chr(0x61 + at): letter for at, letter in enumerate(letters)} | {" ": " "}
    return raw_pdf(["".join(show(72, 700 - 12 * at, "abcdefgh hgfedcba " * 4, 8) for at in range(9))], codes)


def test_gibberish_is_said_with_a_way_out() -> None:
    (warning,) = read_bytes("odd.pdf", gibberish("\x01\x0e\x0f\x10RST\x7f")).extraction.warnings
    assert warning.startswith("Page 1 of odd.pdf cannot be read")
    assert "--ocr reads them" in warning


def test_a_pdf_of_control_characters_holds_no_text() -> None:
    error = refusal(lambda: read_bytes("odd.pdf", gibberish("\x01\x0e\x0f\x10\x11\x12\x13\x7f")))
    assert "no meaning" in error.why
    assert "specextend summarize odd.pdf --ocr" in error.fix


def test_a_font_without_a_table_of_its_letters_is_gibberish() -> None:
    document = read_bytes("odd.pdf", unmapped_bytes("The river rises at first"))
    assert "ULYHU" in document.text
    assert "--ocr reads them" in document.extraction.warnings[0]
