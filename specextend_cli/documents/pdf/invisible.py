"""Invisible words of a PDF page: white on white, in render mode 3, on a hidden layer, or under a filled box.

Words are left out only where the page, rendered, has a single colour in their place, and no picture: the text of a scan
is invisible too, and is what its picture shows.
"""

from __future__ import annotations

import ctypes
import math
import re
from collections.abc import Sequence
from functools import cache
from itertools import groupby
from typing import Any, NamedTuple

from specextend_cli.documents.pdf.glyphs import GlyphLine

_MOST = 2_000  # paths on a page; with more it is a drawing
_MOST_PICTURES = 50
_MOST_COVERS = 50  # filled shapes on a page that are compared with its texts
_NEARLY_WHITE = 250
_LAYER_NAME = 6  # bytes of "OC" in UTF-16
_OVERLAP = 2.0  # points
_BAR = 4.0  # points: the height of a filled shape that may cover text
_LETTERS = 2  # of a word; a full stop or a dash fills its box
_PIXELS = 16e6
_SHADES = 8  # that one colour may have
# PDFium writes into these for each text of a page.
_NAME, _LENGTH = (ctypes.c_ushort * 8)(), ctypes.c_ulong()
_COLOUR = tuple(ctypes.c_uint() for _ in range(4))


class Box(NamedTuple):
    """The edges of an object on a page, in points."""

    left: float
    bottom: float
    right: float
    top: float

    @property
    def area(self) -> float:
        """Its area in square points."""
        return (self.right - self.left) * (self.top - self.bottom)

    def contains(self, other: Box) -> bool:
        """True if the other is inside."""
        across = self.left <= other.left and other.right <= self.right
        return across and self.bottom <= other.bottom and other.top <= self.top


def box_of(one: Any) -> Box:
    """The box of an object of PDFium (a pointer to it); an empty one where it is not known."""
    from pypdfium2 import raw

    edges = [ctypes.c_float() for _ in Box._fields]
    if not raw.FPDFPageObj_GetBounds(one, *edges):
        return Box(0, 0, 0, 0)
    return Box(*(edge.value for edge in edges))


def without_invisible(lines: list[GlyphLine], page: Any) -> tuple[list[GlyphLine], list[str]]:
    """The lines of a PDFium text page without invisible words, and these; all lines where nothing else is left."""
    places, pictures, covered = _objects_of(page.page)
    if not places:
        return lines, []
    near = [line for line in lines if line.head.turn or line.head.slanted or _meets(_around(line), places)]
    words = [(line, word) for line in near for word in re.finditer(r"\S+", line.body)]
    boxes = [_ink(*word) for word in words]
    doubtful = [box for box in boxes if _meets(box, places) and not _meets(box, pictures)]
    of_one_colour = _plain(page.page, doubtful)
    plain = [box in of_one_colour for box in boxes]
    covers = [covered.get(line.glyphs.object(line.first + word.start())) for line, word in words]
    # What is drawn on a shape may hide that it covers a word: then other words tell.
    opaque = {
        cover
        for (_, word), is_plain, cover in zip(words, plain, covers, strict=True)
        if is_plain and cover is not None and _letters(word[0]) >= _LETTERS
    }
    unseen = [is_plain or cover in opaque for is_plain, cover in zip(plain, covers, strict=True)]
    parts: list[tuple[GlyphLine, int, int]] = []
    told = zip(words, covers, unseen, strict=True)
    for (_, is_unseen), run in groupby(told, lambda one: (id(one[0][0]), one[2])):
        found = list(run)
        (line, first), (_, last) = found[0][0], found[-1][0]
        if is_unseen and any(_letters(word[0]) >= _LETTERS or cover in opaque for (_, word), cover, _ in found):
            parts.append((line, first.start(), last.end()))
    texts = [line.body[start:end] for line, start, end in parts]
    if sum(map(_letters, texts)) == sum(_letters(line.body) for line in lines):
        return lines, []
    for line, start, end in parts:
        end += line.body[end : end + 1] == " "  # of two spaces one is left
        line.changed |= dict.fromkeys(range(start, end), "")
    gone = {id(line) for line, _, _ in parts if not any(map(str.isalnum, line.text))}
    return [line for line in lines if id(line) not in gone], texts


def _around(line: GlyphLine) -> Box:
    """A box around an upright line."""
    low, high = sorted((line.head.base, line.tail.base))
    return Box(line.left, low - line.size, line.right, high + line.size)


def _letters(text: str) -> int:
    return sum(map(str.isalnum, text))


def _ink(line: GlyphLine, word: re.Match[str]) -> Box:
    """The box of what is drawn of a word."""
    places = range(line.first + word.start(), line.first + word.end())
    lefts, bottoms, rights, tops = zip(*map(line.glyphs.ink, places), strict=True)
    return Box(min(lefts), min(bottoms), max(rights), max(tops))


def _meets(box: Box, others: Sequence[Box]) -> bool:
    """True if a box overlaps one of the others by more than its edges."""
    width, height = min(_OVERLAP, (box.right - box.left) / 2), min(_OVERLAP, (box.top - box.bottom) / 2)
    return any(
        min(box.right, other.right) - max(box.left, other.left) > width
        and min(box.top, other.top) - max(box.bottom, other.bottom) > height
        for other in others
    )


def _objects_of(page: Any) -> tuple[list[Box], list[Box], dict[int | None, int]]:
    """Where a PDFium page may have invisible text, its pictures, and the last shape that may cover each of its texts.

    The first are texts that may be unseen, and filled shapes that are drawn after a text; none where the page has too
    many paths or pictures. Texts are named by their addresses, and shapes by their numbers.
    """
    from pypdfium2 import raw

    objects = [raw.FPDFPage_GetObject(page, at) for at in range(raw.FPDFPage_CountObjects(page))]
    kinds = list(map(raw.FPDFPageObj_GetType, objects))
    others = len(kinds) - kinds.count(raw.FPDF_PAGEOBJ_PATH) - kinds.count(raw.FPDF_PAGEOBJ_TEXT)
    if kinds.count(raw.FPDF_PAGEOBJ_PATH) > _MOST or others > _MOST_PICTURES:
        return [], [], {}
    places, pictures = list[Box](), list[Box]()
    texts, covered, covers = list[Any](), dict[int | None, int](), 0
    text_box = cache(lambda at: box_of(texts[at]))  # on most pages nothing covers a text
    for one, kind in zip(objects, kinds, strict=True):
        if kind == raw.FPDF_PAGEOBJ_TEXT:
            texts.append(one)
            places += [box_of(one)] if _is_unseen(raw, one) else []
        elif kind != raw.FPDF_PAGEOBJ_PATH:
            pictures.append(box_of(one))
        elif texts and (box := box_of(one)).top - box.bottom > _BAR and _is_filled(raw, one):
            places.append(box)
            covers += 1
            inside = [at for at in range(len(texts)) if box.contains(text_box(at))] if covers <= _MOST_COVERS else ()
            covered |= {ctypes.cast(texts[at], ctypes.c_void_p).value: covers for at in inside}
    return places, pictures, covered


def _is_unseen(raw: Any, text: Any) -> bool:
    """True if a text object of PDFium is in render mode 3, on a layer, white or transparent."""
    if raw.FPDFTextObj_GetTextRenderMode(text) == raw.FPDF_TEXTRENDERMODE_INVISIBLE:
        return True
    for number in range(raw.FPDFPageObj_CountMarks(text)):
        mark = raw.FPDFPageObj_GetMark(text, number)
        has_name = raw.FPDFPageObjMark_GetName(mark, _NAME, ctypes.sizeof(_NAME), _LENGTH)
        if has_name and _LENGTH.value == _LAYER_NAME and bytes(_NAME)[:4] == b"O\0C\0":
            return True
    if not raw.FPDFPageObj_GetFillColor(text, *_COLOUR):
        return False
    *parts, opacity = (part.value for part in _COLOUR)
    return opacity == 0 or min(parts) >= _NEARLY_WHITE


def _is_filled(raw: Any, path: Any) -> bool:
    mode = ctypes.c_int()
    return bool(raw.FPDFPath_GetDrawMode(path, mode, ctypes.c_int())) and mode.value != raw.FPDF_FILLMODE_NONE


def _plain(page: Any, boxes: Sequence[Box]) -> set[Box]:
    """Those boxes of a PDFium page that have a single colour within their edges; its forms are not drawn."""
    from pypdfium2 import PdfBitmap, PdfPosConv, raw

    size = page.get_size()
    scale = min(1.0, (_PIXELS / max(size[0] * size[1], 1)) ** 0.5)
    width, height = (math.ceil(side * scale) for side in size)
    to_bitmap = PdfPosConv(page, (0, 0, width, height, 0)).to_bitmap
    areas = dict[Box, tuple[int, int, int, int]]()
    for box in boxes:
        corners = to_bitmap(box.left, box.top), to_bitmap(box.right, box.bottom)
        (left, right), (upper, lower) = (sorted(ends) for ends in zip(*corners, strict=True))
        if 0 <= left < right - 1 < width and 0 <= upper < lower - 1 < height:
            areas[box] = left + 1, upper + 1, right, lower
    if not areas:
        return set()
    lefts, uppers, rights, lowers = zip(*areas.values(), strict=True)
    x, y = min(lefts), min(uppers)  # only the part of the page that is asked for is drawn
    bitmap = PdfBitmap.new_native(max(rights) - x, max(lowers) - y, raw.FPDFBitmap_BGR)
    bitmap.fill_rect((255, 255, 255, 255), 0, 0, bitmap.width, bitmap.height)
    raw.FPDF_RenderPageBitmap(bitmap, page, -x, -y, width, height, 0, 0)
    pixels, stride = bytes(bitmap.buffer), bitmap.stride

    def is_plain(left: int, upper: int, right: int, lower: int) -> bool:
        rows = (row * stride for row in range(upper - y, lower - y))
        inside = b"".join(pixels[row + 3 * (left - x) : row + 3 * (right - x)] for row in rows)
        return all(max(inside[channel::3]) - min(inside[channel::3]) <= _SHADES for channel in range(3))

    return {box for box, area in areas.items() if is_plain(*area)}
