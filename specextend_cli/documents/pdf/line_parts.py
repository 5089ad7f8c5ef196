"""Parts of the lines of a PDF page that are left out: what remains has single spaces, and no bullets without items."""

from __future__ import annotations

from collections.abc import Iterable

from specextend_cli.documents.line import HYPHEN
from specextend_cli.documents.pdf.glyphs import GlyphLine

_LEVEL, _NEAR = 0.1, 2.5  # sizes between a bullet and its item

Part = tuple[GlyphLine, int, int]
"""A line, and the start and end of a part of it."""


def without_parts(lines: Iterable[GlyphLine], parts: Iterable[Part]) -> list[GlyphLine]:
    """The lines without the parts, and without lines of which no letter or digit is left."""
    changed: list[GlyphLine] = []
    for line, start, end in parts:
        rest = line.body[end:]
        if rest[:1] == " " or not rest.strip(HYPHEN):  # of two spaces one is left, and none at an end
            start -= start > 0 and line.body[start - 1] == " "
            end += start == 0 and rest[:1] == " "
        line.changed |= dict.fromkeys(range(start, len(line.body) if rest == HYPHEN else end), "")
        changed.append(line)
    gone = {id(line): line for line in changed if not any(map(str.isalnum, line.text))}
    kept = (line for line in lines if id(line) not in gone)
    return [line for line in kept if not any(_is_marker_of(line, item) for item in gone.values())]


def _is_marker_of(line: GlyphLine, item: GlyphLine) -> bool:
    """True if a line is the bullet of a list item."""
    level = abs(line.base - item.base) < _LEVEL * item.size
    return len(line.body) == 1 and not line.body.isalnum() and level and 0 < item.left - line.right < _NEAR * item.size
