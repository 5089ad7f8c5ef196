"""Struck out words of PDFs are left out and counted; lines below, above and beside words say nothing."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from specextend_cli.documents.document import Document
from specextend_cli.documents.read import read_bytes
from tests.documents.raw_pdf import raw_pdf, show, width

SIZE = 12
TEXT = "Boats pay four five crowns a day, and ferries pay nothing at all in winter."


def read(lines: Iterable[str], strokes: Iterable[tuple[str, int, float]], *, more: float = 0) -> Document:
    """A page of lines, with strokes through a part of a line at a height in sizes; `more` points at both ends."""
    lines = list(lines)
    content = "".join(show(72, 700 - 14 * row, line, SIZE) for row, line in enumerate(lines))
    for part, row, height in strokes:
        left = 72 + width(lines[row][: lines[row].index(part)], SIZE)
        y = 700 - 14 * row + height * SIZE
        content += f"{left - more:.2f} {y:.2f} {width(part, SIZE) + 2 * more:.2f} 0.8 re f\n"
    return read_bytes("a.pdf", raw_pdf([content]))


@pytest.mark.parametrize(
    ("part", "wanted"),
    [
        ("four", TEXT.replace("four ", "")),
        ("Boats pay ", TEXT.removeprefix("Boats pay ")),
        (" at all in winter.", TEXT.removesuffix(" at all in winter.")),
        ("crow", TEXT.replace("crow", "")),
    ],
)
def test_struck_words_are_left_out(part: str, wanted: str) -> None:
    document = read([TEXT], [(part, 0, 0.25)])
    assert document.text == wanted
    assert document.extraction.changes["deleted text"] == 1
    assert document.extraction.left_out == len(part.split())


@pytest.mark.parametrize(
    ("part", "height", "more"), [("four", -0.15, 0), ("four", 0.8, 0), (" in winter.", 0.25, 30), (TEXT, 0.25, 0)]
)
def test_other_lines_say_nothing(part: str, height: float, more: float) -> None:
    document = read([TEXT], [(part, 0, height)], more=more)
    assert document.text == TEXT
    assert document.extraction.left_out == 0


def test_fraction_bars_strike_nothing() -> None:
    x = 72 + width("Pay ", SIZE)
    content = show(72, 700, "Pay ", SIZE) + show(x, 705, "10", 8) + show(x, 694, "25", 8)
    content += show(x + 10, 700, " of it, at once and without any delay.", SIZE) + f"{x} 702.5 9 0.6 re f\n"
    assert read_bytes("a.pdf", raw_pdf([content])).extraction.left_out == 0
