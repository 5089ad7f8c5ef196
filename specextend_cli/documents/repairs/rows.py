"""Pieces of one printed line become one line."""

from __future__ import annotations

import re
from dataclasses import replace

from specextend_cli.documents.document import Edit
from specextend_cli.documents.line import HYPHEN, Line
from specextend_cli.documents.repairs.notes import NOTE_NUMBER
from specextend_cli.documents.repairs.repair import Pages, Repaired

CELLS = "  "
"""What stands between two cells of a row, once its characters are repaired."""

_BETWEEN_FIGURES = 0.4  # sizes: a wider gap between two figures is more than a space
_FIGURE_ENDS = re.compile(r"(?:\d[%)]?|(?:^|\s)[—–-])$")
_FIGURE_BEGINS = re.compile(r"[($€£¥+−–-]?\d|[—–-](?:\s|$)")


def rows(pages: Pages) -> Repaired:
    """Pieces of one printed line (words after a raised note mark, a bullet and its item, cells) become one line."""
    edits: list[Edit] = []
    fixed: list[list[Line]] = []
    for page in pages:
        kept: list[Line] = []
        for line in page:
            if kept and (gap := _beside(kept[-1], line)) is not None:
                left = kept.pop()
                joint = _joint(left, line, gap)
                edits.append(
                    Edit("row joined", line.page, f"{left.text}\n{line.text}", f"{left.text}{joint}{line.text}")
                )
                line = _side_by_side(left, line, joint)
            kept.append(line)
        fixed.append(kept)
    return fixed, edits


def _beside(a: Line, b: Line) -> float | None:
    """The space between `a` and `b` when b goes on to the right of a on the same baseline, else None."""
    gap = b.left - a.right
    if gap < -0.3 * a.size or a.text.endswith(HYPHEN):
        return None
    if NOTE_NUMBER.fullmatch(a.text):
        return gap if 0 <= a.base - b.base < 0.8 * b.size else None
    alike = abs(a.size - b.size) < 0.1 * a.size and a.bold == b.bold
    return gap if alike and abs(a.base - b.base) < (0.1 if gap > a.size else 0.45) * a.size else None


def _joint(a: Line, b: Line, gap: float) -> str:
    """What stands between two pieces: cells are told apart by two spaces, figures already by a narrow gap."""
    figures = _FIGURE_ENDS.search(a.text) and _FIGURE_BEGINS.match(b.text)
    if gap > (_BETWEEN_FIGURES if figures else 1.5) * a.size:
        return CELLS
    one_word = gap < (0.1 if b.text[0] in ").,;:" else 0.05) * a.size  # H₂O
    return "" if one_word and not figures and not NOTE_NUMBER.fullmatch(a.text) else " "


def _side_by_side(a: Line, b: Line, joint: str) -> Line:
    size, base = max((a.size, a.base), (b.size, b.base))
    gaps = a.gaps + (((a.right, b.left),) if joint == CELLS else ()) + b.gaps
    text, bold = f"{a.text}{joint}{b.text}", a.bold and b.bold
    return replace(a, text=text, right=b.right, size=size, base=base, bold=bold, gaps=gaps)
