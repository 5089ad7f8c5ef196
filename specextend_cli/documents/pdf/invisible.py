"""Invisible words of a PDF page: white on white, in render mode 3, on a hidden layer, or under a filled box.

Words are left out only where the page, rendered, has a single colour in their place, and no picture: the text of a scan
is invisible too, and is what its picture shows.
"""

from __future__ import annotations

import ctypes
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


class _Box(NamedTuple):
    """The edges of an object on a page, in points."""

    left: float
    bottom: float
    right: float
    top: float

    def contains(self, other: _Box) -> bool:
        return (
            self.left <= other.left
            and self.bottom <= other.bottom
            and other.right <= self.right
            and other.top <= self.top
        )


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


def _around(line: GlyphLine) -> _Box:
    """A box around an upright line."""
    low, high = sorted((line.head.base, line.tail.base))
    return _Box(line.left, low - line.size, line.right, high + line.size)


def _letters(text: str) -> int:
    return sum(map(str.isalnum, text))


def _ink(line: GlyphLine, word: re.Match[str]) -> _Box:
    """The box of what is drawn of a word."""
    places = range(line.first + word.start(), line.first + word.end())
    lefts, bottoms, rights, tops = zip(*map(line.glyphs.ink, places), strict=True)
    return _Box(min(lefts), min(bottoms), max(rights), max(tops))


def _meets(box: _Box, others: Sequence[_Box]) -> bool:
    """True if a box overlaps one of the others by more than its edges."""
    width, height = min(_OVERLAP, (box.right - box.left) / 2), min(_OVERLAP, (box.top - box.bottom) / 2)
    return any(
        min(box.right, other.right) - max(box.left, other.left) > width
        and min(box.top, other.top) - max(box.bottom, other.bottom) > height
        for other in others
    )


def _objects_of(page: Any) -> tuple[list[_Box], list[_Box], dict[int | None, int]]:
    """Where a PDFium page may have invisible text, its pictures, and the last shape that may cover each of its texts.

    The first are texts that may be unseen, and filled shapes that are drawn after a text; none where the page has too
    many paths or pictures. Texts are named by their addresses, and shapes by their numbers.
    """
    from pypdfium2 import raw

    objects = [raw.FPDFPage_GetObject(page, number) for number in range(raw.FPDFPage_CountObjects(page))]
    kinds = list(map(raw.FPDFPageObj_GetType, objects))
    others = len(kinds) - kinds.count(raw.FPDF_PAGEOBJ_PATH) - kinds.count(raw.FPDF_PAGEOBJ_TEXT)
    if kinds.count(raw.FPDF_PAGEOBJ_PATH) > _MOST or others > _MOST_PICTURES:
        return [], [], {}
    told = _Objects()
    places, pictures = list[_Box](), list[_Box]()
    texts, covered, covers = dict[int | None, _Box](), dict[int | None, int](), 0
    for one, kind in zip(objects, kinds, strict=True):
        if kind == raw.FPDF_PAGEOBJ_TEXT:
            box = texts[ctypes.cast(one, ctypes.c_void_p).value] = told.box(one)
            places += [box] if told.is_unseen(one) else []
        elif kind != raw.FPDF_PAGEOBJ_PATH:
            pictures.append(told.box(one))
        elif texts and told.may_cover(one):
            box = told.box(one)
            places.append(box)
            covers += 1
            inside = [text for text, under in texts.items() if box.contains(under)] if covers <= _MOST_COVERS else ()
            covered |= dict.fromkeys(inside, covers)
    return places, pictures, covered


class _Objects:
    """What PDFium tells about the objects of a page."""

    def __init__(self) -> None:
        from pypdfium2 import raw

        self._raw = raw
        self._edges = [ctypes.c_float() for _ in range(4)]
        self._colour = [ctypes.c_uint() for _ in range(4)]
        self._mode, self._stroked, self._length = ctypes.c_int(), ctypes.c_int(), ctypes.c_ulong()
        self._name = (raw.FPDF_WCHAR * 8)()

    def box(self, one: Any) -> _Box:
        self._raw.FPDFPageObj_GetBounds(one, *self._edges)
        return _Box(*(edge.value for edge in self._edges))

    def is_unseen(self, text: Any) -> bool:
        """True if a text is in render mode 3, on a layer, white or transparent."""
        if self._raw.FPDFTextObj_GetTextRenderMode(text) == self._raw.FPDF_TEXTRENDERMODE_INVISIBLE:
            return True
        for number in range(self._raw.FPDFPageObj_CountMarks(text)):
            mark = self._raw.FPDFPageObj_GetMark(text, number)
            has_name = self._raw.FPDFPageObjMark_GetName(mark, self._name, 16, self._length)
            if has_name and self._length.value == _LAYER_NAME and bytes(self._name)[:4] == b"O\0C\0":
                return True
        if not self._raw.FPDFPageObj_GetFillColor(text, *self._colour):
            return False
        *colour, opacity = (part.value for part in self._colour)
        return opacity == 0 or min(colour) >= _NEARLY_WHITE

    def may_cover(self, path: Any) -> bool:
        """True if a path is filled, and higher than a rule."""
        box = self.box(path)
        drawn = self._raw.FPDFPath_GetDrawMode(path, self._mode, self._stroked)
        return bool(drawn) and self._mode.value != self._raw.FPDF_FILLMODE_NONE and box.top - box.bottom > _BAR


class _RenderedPage:
    """A rendered PDFium page, without its forms and annotations."""

    def __init__(self, page: Any) -> None:
        from pypdfium2 import raw

        width, height = page.get_size()
        scale = min(1.0, (_PIXELS / max(width * height, 1)) ** 0.5)
        bitmap = page.render(scale=scale, may_draw_forms=False, draw_annots=False)
        self._raw, self._page, self._bitmap = raw, page, bitmap
        self._data = bytes(bitmap.buffer)

    def is_plain(self, box: _Box) -> bool:
        """True if a box of the page, without its edges, has a single colour; False outside of the page."""
        bitmap, channels = self._bitmap, self._bitmap.n_channels
        corners = self._pixel(box.left, box.top), self._pixel(box.right, box.bottom)
        (left, right), (upper, lower) = (sorted(ends) for ends in zip(*corners, strict=True))
        if not (0 <= left < right - 1 < bitmap.width and 0 <= upper < lower - 1 < bitmap.height):
            return False
        starts = (row * bitmap.stride for row in range(upper + 1, lower))
        rows = [self._data[at + (left + 1) * channels : at + right * channels] for at in starts]
        shades = (b"".join(row[channel::channels] for row in rows) for channel in range(channels))
        return all(max(values) - min(values) <= _SHADES for values in shades)

    def _pixel(self, x: float, y: float) -> tuple[int, int]:
        across, down = ctypes.c_int(), ctypes.c_int()
        self._raw.FPDF_PageToDevice(self._page, 0, 0, self._bitmap.width, self._bitmap.height, 0, x, y, across, down)
        return across.value, down.value
