"""Pieces of one printed line become one line."""

from __future__ import annotations

import re
from dataclasses import replace

from specextend_cli.documents.document import Edit
from specextend_cli.documents.line import HYPHEN, Line
from specextend_cli.documents.repairs.footnotes import NOTE_NUMBER
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
        texts: list[str] = []  # of the last row: its pieces and what joins them, put together once
        gaps: list[tuple[float, float]] = []  # and the gaps between its cells
        for line in page:
            gap = _beside(kept[-1], line, alone=len(texts) == 1) if kept else None
            if gap is None:
                _close(kept, texts, gaps)
                kept.append(line)
                texts, gaps = [line.text], list(line.gaps)
                continue
            left = kept[-1]
            joint = _joint(left, line, gap)
            edits.append(Edit("row joined", line.page, f"{texts[-1]}\n{line.text}", f"{texts[-1]}{joint}{line.text}"))
            texts += (joint, line.text)
            if joint == CELLS:
                gaps.append((left.right, line.left))
            gaps += line.gaps
            kept[-1] = _side_by_side(left, line)
        _close(kept, texts, gaps)
        fixed.append(kept)
    return fixed, edits


def _close(kept: list[Line], texts: list[str], gaps: list[tuple[float, float]]) -> None:
    """Give the last row, if it has several pieces, their text and the gaps between their cells."""
    if len(texts) > 1:
        kept[-1] = replace(kept[-1], text="".join(texts), gaps=tuple(gaps))


def _beside(a: Line, b: Line, *, alone: bool) -> float | None:
    """The space between `a` and `b` when b goes on to the right of a on the same baseline, else None.

    `a` is the last piece of its row, measured as the row; `alone`: the only one.
    """
    gap = b.left - a.right
    if gap < -0.3 * a.size or a.text.endswith(HYPHEN):
        return None
    if alone and NOTE_NUMBER.fullmatch(a.text):
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


def _side_by_side(row: Line, piece: Line) -> Line:
    """The row with one more piece: its measures, and the text of that piece."""
    size, base = max((row.size, row.base), (piece.size, piece.base))
    return replace(row, text=piece.text, right=piece.right, size=size, base=base, bold=row.bold and piece.bold)
