"""Prose in lines of a terminal's width."""

from __future__ import annotations

from rich.cells import cell_len, set_cell_size


def fold(paragraph: str, width: int) -> list[str]:
    """Lines of at most `width` cells, broken at spaces if possible. The last one keeps its trailing space."""
    lines = []
    while cell_len(paragraph.rstrip()) > width:
        fits = set_cell_size(paragraph, width + 1)
        space = fits.rfind(" ", 1)
        cut = space if space > 0 and paragraph[:space].strip() else len(set_cell_size(paragraph, width).rstrip())
        cut = max(cut, 1)
        lines.append(paragraph[:cut].rstrip())
        paragraph = paragraph[cut:].lstrip(" ")
    return [*lines, paragraph]
