"""Accents that are drawn on letters, and the buttons of captured web pages."""

from __future__ import annotations

import pytest

from specextend_cli.documents.read import read_bytes
from tests.documents.raw_pdf import raw_pdf, show, width


def accented(text: str, *, behind: bool = False, rise: float = 0.0) -> str:
    """The text of a page on which `{´e}` is an e with an accent drawn in its middle, before the e or behind it."""
    content, x = "", 72.0
    for part in text.replace("}", "{").split("{"):
        if part[:1] in tuple("´`¨ˆ˜¸") and len(part) == 2:
            accent, letter = part[0], part[1]
            middle = x + (width(letter, 12) - width(accent, 12)) / 2
            code = accent.encode("cp1252").decode("latin-1")
            shown = show(middle, 700 + rise, code), show(x, 700, letter)
            content += "".join(shown[::-1] if behind else shown)
            x += width(letter, 12)
        else:
            content += show(x, 700, part)
            x += width(part, 12)
    return read_bytes("a.pdf", raw_pdf([content])).text


@pytest.mark.parametrize("behind", [False, True])
@pytest.mark.parametrize(
    ("text", "composed"),
    [
        ("The d{´e}cision of the pr{´e}fet was na{¨i}ve.", "The décision of the préfet was naïve."),
        ("Fran{¸c}ois met G{¨u}nter and Ren{´e} Ibá{˜n}ez.", "François met Günter and René Ibáñez."),
        ("A voil{`a}, a for{ˆe}t and an h{ˆo}tel stood there.", "A voilà, a forêt and an hôtel stood there."),
    ],
)
def test_accents_are_on_their_letters(text: str, composed: str, *, behind: bool) -> None:
    assert accented(text, behind=behind) == composed


def test_accents_of_capitals_are_raised() -> None:
    assert (
        accented("The {´E}cole and the {¨O}konom of this valley.", rise=2.6)
        == "The École and the Ökonom of this valley."
    )


@pytest.mark.parametrize("text", ["The angle is 30´ or 5¨ wide.", "Type `make` or ^C in ~ now.", "a ´ b"])
def test_signs_beside_letters_stay(text: str) -> None:
    assert read_bytes("a.pdf", raw_pdf([show(72, 700, text)])).text == text


@pytest.mark.parametrize(
    ("drawn", "read"),
    [
        ("nmlkji Yes nmlkj No", "(x) Yes ( ) No"),
        ("gfedcb The bridge gfedc The ferry", "[x] The bridge [ ] The ferry"),
        ("The keys are zyxwvutsrqponmlkjihgfedcba.", "The keys are zyxwvutsrqponmlkjihgfedcba."),
    ],
)
def test_buttons_of_captured_pages(drawn: str, read: str) -> None:
    assert read_bytes("a.pdf", raw_pdf([show(72, 700, f"Which? {drawn}")])).text == f"Which? {read}"
