"""Arabic and Hebrew lines whose letters PDFium does not give in the order of reading."""

from __future__ import annotations

from typing import Any

import pytest

from specextend_cli.documents.pdf.glyphs import GlyphLine
from specextend_cli.documents.pdf.right_to_left import order_letters


def line(*words: tuple[str, bool]) -> GlyphLine:
    """Words from right to left, each with its letters in the order of PDFium: by their places ascending or not."""
    unused: Any = None
    body, spans, right = " ".join(text for text, _ in words), list[tuple[float, float]](), 500.0
    for text, ascending in words:
        places = [(right - 5 * at - 5, right - 5 * at) for at in range(len(text))]
        spans += [*(reversed(places) if ascending else places), (right - 5 * len(text) - 5, right - 5 * len(text))]
        right -= 5 * len(text) + 5
    made = GlyphLine(unused, body, 0, right, 500.0, unused, unused)
    made.__dict__["spans"] = spans[: len(body)]
    return made


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ((("سلجم", True), ("الميناء", False), ("يف", True)), "مجلس الميناء في"),
        ((("הנהר", False), ("הלוע", True)), "הנהר עולה"),
        ((("مليون", False), (")2025(", False)), "مليون (2025)"),
        ((("مليون)", False), ("2025(", False)), "مليون (2025)"),
        ((("הנהר", False), ("(2025)", False)), "הנהר (2025)"),
    ],
)
def test_words_and_brackets_are_in_the_order_of_reading(words: tuple[tuple[str, bool], ...], text: str) -> None:
    made = line(*words)
    repairs = order_letters([made])
    assert made.text == text
    assert repairs == ([("letter order", made.body, text)] if made.body != text else [])


def test_other_lines_stay() -> None:
    made = line(("Jones", True), (")x(", False))
    assert (order_letters([made]), made.text) == ([], "Jones )x(")
