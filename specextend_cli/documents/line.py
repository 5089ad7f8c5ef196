"""A line of a page and where it stands: what readers produce and the cleaning works on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

HYPHEN = "\x02"
"""Ends a line whose last word goes on in the next line, where the reader knows it (PDFium marks it so)."""

EMPTY_CELL = "—"
"""Stands for an empty cell before others of its row, so that columns do not shift."""

SUPERSCRIPT_LETTERS = "ᵃᵇᶜᵈᵉᶠᵍʰⁱʲᵏˡᵐⁿᵒᵖʳˢᵗᵘᵛʷˣʸᶻ"
"""Raised letters, those of "abcdefghijklmnoprstuvwxyz"."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of text. `left`, `right`, `base` (baseline above the page's foot) and `size` share one unit.

    In a PDF the unit is the point. A text file is a grid of characters: columns across, rows counted downward from 0
    (so `base` is negative), and `size` 1. A `slanted` line is neither level nor upright.
    `gaps` are the left and right ends of the wide spaces that the text has as tabs. `turn`: the direction in which it
    runs, in quarter turns; the other figures are measured as if the page were turned. -1: it stands nowhere.
    """

    text: str
    page: int
    left: float
    right: float
    base: float
    size: float = 1.0
    bold: bool = False
    slanted: bool = False
    gaps: tuple[tuple[float, float], ...] = ()
    turn: int = 0

    @property
    def em(self) -> float:
        """Width of an average character."""
        return (self.right - self.left) / max(len(self.text), 1)


def placed(answers: Iterable[Sequence[Any]], page: int) -> list[Line]:
    """Lines as a parser's process answers with them: a line's fields but for its page; of what OCR read, no turn."""
    return [
        Line(text, page, left, right, base, size, bold, slanted, tuple((start, end) for start, end in gaps), *turn)
        for text, left, right, base, size, bold, slanted, gaps, *turn in answers
    ]


def grid(text: str, page: int) -> list[Line]:
    """The lines of one page of plain text; blank ones only leave their gap."""
    lines = []
    for row, raw in enumerate(text.split("\n")):
        expanded = raw.rstrip().expandtabs(8)
        if body := expanded.lstrip():
            raw = raw.replace(HYPHEN, "\x01")  # a text that holds this character holds a control, not our mark
            lines.append(Line(raw.strip(), page, len(expanded) - len(body), len(expanded), -row))
    return lines
