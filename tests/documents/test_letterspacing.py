"""Letterspaced lines are words; letters that stand apart for other reasons stay apart."""

from __future__ import annotations

import pytest

from specextend_cli.documents.read import read_bytes
from tests.documents.raw_pdf import raw_pdf, show, show_apart, width

TEXT = "The level of the river is read every morning at the mill."


def spaced(text: str, by: float) -> str:
    """The text of a page with a line whose letters stand apart, above a line of text."""
    x, glyphs = 72.0, []
    for letter in text:
        if letter != " ":
            glyphs.append((x, letter))
        x += width(letter, 12) + by
    return read_bytes("a.pdf", raw_pdf([show_apart(glyphs, 700, 12) + show(72, 660, TEXT)])).text.split("\n")[0]


@pytest.mark.parametrize("text", ["CONTENTS", "WIDE LETTERS HERE", "Rain and Floods"])
def test_letterspaced_words(text: str) -> None:
    assert spaced(text, 5) == text


@pytest.mark.parametrize(
    ("text", "by"), [("ABCDEFGH", 5), ("ABCDEGHIKL", 5), ("aeioaeio", 5), ("NYNNYYN", 5), ("CONTENTS", 20)]
)
def test_other_letters_stay_apart(text: str, by: float) -> None:
    assert spaced(text, by).split() == list(text)


def test_letters_with_spaces_stay_apart() -> None:
    line = "A N E S T W O"
    assert line in read_bytes("a.pdf", raw_pdf([show(72, 700, line) + show(72, 660, TEXT)])).text
