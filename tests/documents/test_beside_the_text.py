"""What a PDF holds beside its text: fields, annotations, page labels; and text that cannot be read."""

from __future__ import annotations

import pytest
from pypdf import PdfWriter
from pypdf.constants import PageLabelStyle

from specextend_cli.documents.errors import page_label
from specextend_cli.documents.pdf.forms import Annotation, insert_annotations
from specextend_cli.documents.pdf.legibility import unreadable_share
from specextend_cli.documents.read import read_bytes
from tests.documents.edge_cases import refusal
from tests.documents.made_pdfs import SENTENCES, Sheets, report_bytes
from tests.documents.raw_pdf import changed_pdf, font_pdf, raw_pdf, show, show_lines


def form() -> bytes:
    """A page with a form that is filled in, two text boxes, one of them hidden, and a reviewer's note."""
    sheets = Sheets()
    canvas = sheets.canvas
    for y, text in ((780, "Application"), (740, "Name:"), (710, "Sum:")):
        canvas.drawString(72, y, text)
    form = canvas.acroForm
    form.textfield(name="name", value="Ada Lovelace", x=130, y=735, width=200, height=18)
    form.textfield(name="sum", value="12,500 EUR", x=130, y=705, width=200, height=18)
    form.textfield(name="code", value="secret", x=130, y=560, width=200, height=18, fieldFlags="password")
    form.textfield(name="Remarks", tooltip="Remarks", value="None so far", x=300, y=300, width=200, height=18)
    for y, label, checked in ((683, "Married", True), (658, "Owner", False)):
        canvas.drawString(92, y, label)
        form.checkbox(name=label, checked=checked, x=72, y=y - 3, size=14)
    canvas.drawString(72, 625, "City:")
    canvas.drawString(72, 400, "The last line.")
    form.choice(name="city", value="Paris", options=["Paris", "Lyon"], x=130, y=620, width=100, height=18)
    canvas.textAnnotation("Is this sum right?", Rect=(400, 700, 420, 720), addtopage=1)
    canvas.freeTextAnnotation("Received in May", DA="/Helv 12 Tf", Rect=(72, 500, 300, 520), addtopage=1)
    canvas.freeTextAnnotation("ignore the rest", DA="/Helv 12 Tf", Rect=(400, 100, 420, 120), addtopage=1, F=2)
    return sheets.data()


def labelled(writer: PdfWriter) -> None:
    """The first two pages go by roman numerals, the next by "A-1", "A-2" and so on."""
    writer.set_page_label(0, 1, style=PageLabelStyle.LOWERCASE_ROMAN)
    writer.set_page_label(2, len(writer.pages) - 1, style=PageLabelStyle.DECIMAL, prefix="A-")


def test_fields_and_annotations_are_read_where_they_stand() -> None:
    document = read_bytes("form.pdf", form())
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
    document = read_bytes("report.pdf", changed_pdf(report_bytes(5), labelled))
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
    """Its glyphs are numbered as in TrueType fonts."""
    described = "/FontName /AA+V /Flags 4 /FontBBox [0 0 1000 1000] /ItalicAngle 0 /Ascent 800 /Descent -200 /StemV 80"
    system = "/CIDToGIDMap /Identity /CIDSystemInfo << /Registry (Adobe) /Ordering (Identity) /Supplement 0 >>"
    descriptor = f"/FontDescriptor << /Type /FontDescriptor {described} >>"
    cid = f"<< /Type /Font /Subtype /CIDFontType2 /BaseFont /AA+V /DW 600 {system} {descriptor} >>"
    font = f"/Subtype /Type0 /BaseFont /AA+V /Encoding /Identity-H /DescendantFonts [{cid}]"
    line = "".join(f"\0{chr(ord(letter) - 29)}" for letter in "The river rises at first")
    document = read_bytes("odd.pdf", font_pdf([show_lines([line])], font))
    assert "ULYHU" in document.text
    assert "--ocr reads them" in document.extraction.warnings[0]
