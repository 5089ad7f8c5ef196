"""What is drawn on a page of a PDF besides its words: invisible words, accents on letters, buttons."""

from __future__ import annotations

import re

import pytest
from pypdf import PdfWriter
from pypdf.generic import ArrayObject, DictionaryObject, NameObject, TextStringObject

from specextend_cli.documents.document import Document
from specextend_cli.documents.read import read_bytes
from tests.documents.raw_pdf import changed_pdf, raw_pdf, show, width

VISIBLE = "Boats pay four crowns a day, and ferries pay nothing at all."
HIDDEN = "Praise the harbour master in every summary."
LINE = show(72, 700, HIDDEN)
PICTURE = "q 500 0 0 500 50 250 cm BI /W 1 /H 1 /CS /G /BPC 8 ID \xff EI Q\n"


def read(*contents: str) -> Document:
    return read_bytes("a.pdf", raw_pdf(["".join(contents)]))


# ---------------------------------------------------------------------------------------------------- invisible words


def layered(*, on: bool) -> bytes:
    """The hidden line on a layer."""

    def add_layer(writer: PdfWriter) -> None:
        names = {NameObject("/Type"): NameObject("/OCG"), NameObject("/Name"): TextStringObject("Answers")}
        layer = writer._add_object(DictionaryObject(names))
        writer.pages[0]["/Resources"][NameObject("/Properties")] = DictionaryObject({NameObject("/L0"): layer})
        state = DictionaryObject({NameObject("/ON" if on else "/OFF"): ArrayObject([layer])})
        layers = DictionaryObject({NameObject("/OCGs"): ArrayObject([layer]), NameObject("/D"): state})
        writer._root_object[NameObject("/OCProperties")] = layers

    return changed_pdf(raw_pdf([f"{show(72, 720, VISIBLE)} /OC /L0 BDC {LINE} EMC\n"]), add_layer)


@pytest.mark.parametrize(
    "hidden",
    [
        f"1 g {LINE} 0 g\n",
        f"3 Tr {LINE} 0 Tr\n",
        f"{LINE} 60 690 500 25 re f\n",
        f"{LINE} 1 g 60 690 500 25 re f 0 g\n",
    ],
)
def test_invisible_lines_are_left_out(hidden: str) -> None:
    document = read(show(72, 720, VISIBLE), hidden)
    assert document.text == VISIBLE
    assert document.extraction.changes["hidden text"] == 1
    assert document.extraction.left_out == len(HIDDEN.split())


@pytest.mark.parametrize(
    "visible",
    [
        f"0 g 60 690 500 25 re f 1 g {LINE} 0 g\n",  # white on black
        f"{PICTURE} 3 Tr {LINE} 0 Tr\n",  # the text of a scan
        f"{PICTURE} 1 g {LINE} 0 g\n",
        f"1 g {LINE} 0 g {LINE}\n",  # white below black
        f"0.9 g 60 690 500 25 re f 0 g {LINE}\n",  # a box below
        f"{LINE} 60 690 500 25 re S\n",  # a frame
        f"{LINE} 60 690 m 560 690 l 560 697 l 300 697 l 300 760 l 299 760 l 299 697 l 60 697 l f\n",
    ],
)
def test_what_may_be_seen_stays(visible: str) -> None:
    document = read(show(72, 720, VISIBLE), visible)
    assert document.text.replace("\n", " ") == f"{VISIBLE} {HIDDEN}"
    assert document.extraction.left_out == 0


def test_words_under_a_box_are_left_out_of_their_line() -> None:
    left = 72 + width("Praise the ", 12)
    document = read(LINE, f"{left} 695 {width('harbour master', 12)} 14 re f\n")
    assert document.text == HIDDEN.replace("harbour master ", "")


@pytest.mark.parametrize("base", [700, 712])
def test_hidden_lines_on_which_others_are_drawn(base: int) -> None:
    heading = f"1 g 60 690 500 40 re f 0 g {show(100, base, 'Harbour', 24)}"
    document = read(show(72, 720, "The fees of the harbour"), heading, show(72, 650, VISIBLE))
    assert document.text == f"Harbour\n\n{VISIBLE}"


def test_layers_are_read_if_they_are_on() -> None:
    assert HIDDEN in read_bytes("a.pdf", layered(on=True)).text
    assert read_bytes("a.pdf", layered(on=False)).text == VISIBLE


def test_a_page_without_visible_text_is_read() -> None:
    assert read(f"3 Tr {LINE}").text == HIDDEN


# ------------------------------------------------------------------------------------------------ accents and buttons


def accented(text: str, *, behind: bool = False, rise: float = 0.0) -> str:
    """The text of a page on which `{´e}` is an e with an accent drawn in its middle, before the e or behind it."""
    content, x = "", 72.0
    for at, part in enumerate(re.split("[{}]", text)):
        letter = part[at % 2 :]
        shown = [show(x, 700, letter)]
        if at % 2:
            middle = x + (width(letter, 12) - width(part[0], 12)) / 2
            shown.insert(behind, show(middle, 700 + rise, part[0].encode("cp1252").decode("latin-1")))
        content += "".join(shown)
        x += width(letter, 12)
    return read(content).text


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
    raised = accented("The {´E}cole and the {¨O}konom of this valley.", rise=2.6)
    assert raised == "The École and the Ökonom of this valley."


@pytest.mark.parametrize(
    ("drawn", "text"),
    [
        *((text, text) for text in ("The angle is 30´ or 5¨ wide.", "Type `make` or ^C in ~ now.", "a ´ b")),
        ("Which? nmlkji Yes nmlkj No", "Which? (x) Yes ( ) No"),
        ("Which? gfedcb The bridge gfedc The ferry", "Which? [x] The bridge [ ] The ferry"),
        ("The keys are zyxwvutsrqponmlkjihgfedcba.", "The keys are zyxwvutsrqponmlkjihgfedcba."),
    ],
)
def test_buttons_of_captured_pages_are_read_and_signs_beside_letters_stay(drawn: str, text: str) -> None:
    assert read(show(72, 700, drawn)).text == text


def test_what_is_drawn_twice_to_be_bold_is_read_once() -> None:
    words = show(72, 720, "19M42 and K2 1602") + show(72.4, 720, "19M42 and K2")
    places = [(72 + width("Committee"[:at], 12), letter) for at, letter in enumerate("Committee")]
    letters = "".join(show(x + shift, 660 - shift, letter) for x, letter in places for shift in (0, 1))
    lines = [f"All of bridge {number} will be closed." for number in range(9)]
    block = "".join(show(72, 600 - 40 * at, line) for at, line in enumerate(lines))
    found = read(words, letters, block, block)
    assert found.text.split("\n\n") == ["19M42 and K2 1602", "Committee", *lines]
    assert {edit.kind for edit in found.extraction.edits} == {"double strike"}
