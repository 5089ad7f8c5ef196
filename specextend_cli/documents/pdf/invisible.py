"""Invisible words of a PDF page: white on white, in render mode 3, on a hidden layer, or under a filled box.

Words are left out only where the page, rendered, has a single colour in their place, and no picture: the text of a scan
is invisible too, and is what its picture shows.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Sequence
from contextlib import suppress
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
    """The box of an object of PDFium; an empty one where it is not known."""
    from pypdfium2 import PdfiumError

    with suppress(PdfiumError):
        return Box(*one.get_bounds())
    return Box(0, 0, 0, 0)


def without_invisible(lines: list[GlyphLine], page: Any) -> tuple[list[GlyphLine], list[str]]:
    """The lines of a PDFium text page without invisible words, and these; all lines where nothing else is left."""
    places, pictures, covered = _objects_of(page.page)
    if not places:
        return lines, []
    rendered = cache(lambda: _RenderedPage(page.page))
    near = [line for line in lines if line.head.turn or line.head.slanted or _meets(_around(line), places)]
    words = [(line, word) for line in near for word in re.finditer(r"\S+", line.body)]
    boxes = [_ink(*word) for word in words]
    plain = [_meets(box, places) and not _meets(box, pictures) and rendered().is_plain(box) for box in boxes]
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

    objects = list(page.get_objects(max_depth=1))
    kinds = [one.type for one in objects]
    others = len(kinds) - kinds.count(raw.FPDF_PAGEOBJ_PATH) - kinds.count(raw.FPDF_PAGEOBJ_TEXT)
    if kinds.count(raw.FPDF_PAGEOBJ_PATH) > _MOST or others > _MOST_PICTURES:
        return [], [], {}
    places, pictures = list[Box](), list[Box]()
    texts, covered, covers = dict[int | None, Box](), dict[int | None, int](), 0
    for one, kind in zip(objects, kinds, strict=True):
        if kind == raw.FPDF_PAGEOBJ_TEXT:
            box = texts[ctypes.cast(one.raw, ctypes.c_void_p).value] = box_of(one)
            places += [box] if _is_unseen(raw, one.raw) else []
        elif kind != raw.FPDF_PAGEOBJ_PATH:
            pictures.append(box_of(one))
        elif texts and (box := box_of(one)).top - box.bottom > _BAR and _is_filled(raw, one.raw):
            places.append(box)
            covers += 1
            inside = [text for text, under in texts.items() if box.contains(under)] if covers <= _MOST_COVERS else ()
            covered |= dict.fromkeys(inside, covers)
    return places, pictures, covered


def _is_unseen(raw: Any, text: Any) -> bool:
    """True if a text object of PDFium is in render mode 3, on a layer, white or transparent."""
    if raw.FPDFTextObj_GetTextRenderMode(text) == raw.FPDF_TEXTRENDERMODE_INVISIBLE:
        return True
    name, length = (raw.FPDF_WCHAR * 8)(), ctypes.c_ulong()
    for number in range(raw.FPDFPageObj_CountMarks(text)):
        mark = raw.FPDFPageObj_GetMark(text, number)
        has_name = raw.FPDFPageObjMark_GetName(mark, name, 16, length)
        if has_name and length.value == _LAYER_NAME and bytes(name)[:4] == b"O\0C\0":
            return True
    colour = [ctypes.c_uint() for _ in range(4)]
    if not raw.FPDFPageObj_GetFillColor(text, *colour):
        return False
    *parts, opacity = (part.value for part in colour)
    return opacity == 0 or min(parts) >= _NEARLY_WHITE


def _is_filled(raw: Any, path: Any) -> bool:
    mode = ctypes.c_int()
    return bool(raw.FPDFPath_GetDrawMode(path, mode, ctypes.c_int())) and mode.value != raw.FPDF_FILLMODE_NONE


class _RenderedPage:
    """A rendered PDFium page, without its forms and annotations."""

    def __init__(self, page: Any) -> None:
        width, height = page.get_size()
        scale = min(1.0, (_PIXELS / max(width * height, 1)) ** 0.5)
        self._bitmap = page.render(scale=scale, may_draw_forms=False, draw_annots=False)
        self._pixels, self._places = self._bitmap.to_numpy(), self._bitmap.get_posconv(page)

    def is_plain(self, box: Box) -> bool:
        """True if a box of the page, without its edges, has a single colour; False outside of the page."""
        corners = self._places.to_bitmap(box.left, box.top), self._places.to_bitmap(box.right, box.bottom)
        (left, right), (upper, lower) = (sorted(ends) for ends in zip(*corners, strict=True))
        if not (0 <= left < right - 1 < self._bitmap.width and 0 <= upper < lower - 1 < self._bitmap.height):
            return False
        inside = self._pixels[upper + 1 : lower, left + 1 : right]
        return bool((inside.max(axis=(0, 1)) - inside.min(axis=(0, 1)) <= _SHADES).all())
