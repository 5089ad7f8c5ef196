"""Letters, ligatures and signs of TeX's bitmap fonts are read by the encoding that their ligatures tell."""

from __future__ import annotations

import pytest

from specextend_cli.documents.read import read_bytes
from tests.documents.raw_pdf import bitmap_font_pdf


@pytest.mark.parametrize(
    ("codes", "wanted"),
    [
        (
            "\x9f 3 Die \x1cnanzielle Hilfe f\xfcr die Stra\xffe ist \xf6\x1bentlich \x15 \x12sicher\x10.",
            "§ 3 Die finanzielle Hilfe für die Straße ist öffentlich – „sicher“.",
        ),
        ("La \xf7uvre \xc0 \x13 e\x1ecace \x14 co\xfbte 3 francs.", "La œuvre À « efficace » coûte 3 francs."),
        ("Za\xbb\xf3\xaa\xa2 g\xa6\xb1l\xa1, o\x1ccjalny \xa1 ja\xb9\xab.", "Zażółć gęślą, oficjalny ą jaźń."),
        (
            'The \\\x0crst" o\x0bers were di\x0berent in 1999{2005 | if any.',
            "The “first” offers were different in 1999–2005 — if any.",
        ),
    ],
)
def test_codes_become_letters(codes: str, wanted: str) -> None:
    document = read_bytes("a.pdf", bitmap_font_pdf([codes]))
    assert document.text == wanted
    assert not document.extraction.warnings


def test_codes_without_a_known_ligature_stay() -> None:
    text = 'Braces {as in code} and "quotes" stay as they are.'
    assert read_bytes("a.pdf", bitmap_font_pdf([text])).text == text


@pytest.mark.parametrize(
    "codes",
    [
        "\xcf\xf0\xe5\xe4\xf1\xf2\xe0\xe2\xeb\xff\xe5\xf2 \xe2\xf1\xe5 o\x1cces \xff\xe7\xfb\xea",  # Cyrillic
        "oÎrli\xb9zei kaÈ mìnimoc âqjrìc eÐnai tä \x1claki stn o\x1cc",  # Greek
    ],
)
def test_other_scripts_are_said_to_be_unread(codes: str) -> None:
    assert "cannot be read" in read_bytes("a.pdf", bitmap_font_pdf([codes])).extraction.warnings[0]
