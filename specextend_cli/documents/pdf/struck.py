"""Struck out words of a PDF page: a thin line goes through the middle of their letters, from the first to the last.

They are left out, as deleted text is in other formats.
"""

from __future__ import annotations

import ctypes
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Any

from specextend_cli.documents.pdf.glyphs import GlyphLine, Repair, without_parts
from specextend_cli.documents.pdf.right_to_left import RIGHT_TO_LEFT

KIND = "deleted text"
_MOST = 2_000  # paths on a page; with more it is a drawing
_THIN = 3.0  # points
_THICKNESS = 0.2  # of the size of the type
_LOW, _HIGH = 0.12, 0.45  # sizes above the base line
_LEAST = 2  # letters or digits: through a single one goes a part of it
_AT_END = 0.4  # sizes between the end of the line and that of a letter
_MOST_STRUCK = 0.5  # of the letters of a page


Stroke = tuple[float, float, float, float]
"""The middle of a thin horizontal line, its thickness, and its left and right end, in points."""


def strokes_of(page: Any) -> list[Stroke]:
    """The thin horizontal lines of a PDFium page by their height; none where it is a drawing."""
    from pypdfium2 import raw

    objects = (raw.FPDFPage_GetObject(page, number) for number in range(raw.FPDFPage_CountObjects(page)))
    paths = [one for one in objects if raw.FPDFPageObj_GetType(one) == raw.FPDF_PAGEOBJ_PATH]
    found, edges = list[Stroke](), [ctypes.c_float() for _ in range(4)]
    for path in paths if len(paths) <= _MOST else ():
        if raw.FPDFPageObj_GetBounds(path, *edges):
            left, bottom, right, top = (edge.value for edge in edges)
            if top - bottom < _THIN < right - left:
                found.append(((bottom + top) / 2, top - bottom, left, right))
    return sorted(found)


def without_struck(lines: list[GlyphLine], strokes: Sequence[Stroke]) -> tuple[list[GlyphLine], list[Repair]]:
    """The lines without struck words, and these as repairs; all lines where most of their letters are struck."""
    found = [(line, first, end) for line in lines if strokes for first, end in _struck(line, strokes)]
    letters = sum(map(str.isalnum, "".join(line.body for line in lines)))
    if sum(map(str.isalnum, "".join(line.body[first:end] for line, first, end in found))) > _MOST_STRUCK * letters:
        return lines, []
    return without_parts(lines, found), [(KIND, line.body[first:end].strip(), "") for line, first, end in found]


def _struck(line: GlyphLine, strokes: Sequence[Stroke]) -> Iterator[tuple[int, int]]:
    """The start and end of each struck part of a line."""
    if line.head.turn or line.head.slanted or line.size <= 0 or RIGHT_TO_LEFT.search(line.body):
        return
    low, high = line.base + _LOW * line.size, line.base + _HIGH * line.size
    for middle, thickness, start, end in strokes[bisect_left(strokes, (low,)) : bisect_left(strokes, (high,))]:
        if thickness > _THICKNESS * line.size or end < line.left or line.right < start:
            continue
        inside = [
            at
            for at, (left, right) in enumerate(line.spans)
            if start < (left + right) / 2 < end and not line.body[at].isspace()
        ]
        if sum(line.body[at].isalnum() for at in inside) < _LEAST:
            continue
        glyphs = (line.glyphs.at(line.first + at) for at in (inside[0], inside[-1]))
        if not all(_LOW * glyph.size < middle - glyph.base < _HIGH * glyph.size for glyph in glyphs):
            continue  # the digits above or below a fraction bar
        ends = line.spans[inside[0]][0] - start, end - line.spans[inside[-1]][1]
        if max(map(abs, ends)) < _AT_END * line.size:
            yield inside[0], inside[-1] + 1
