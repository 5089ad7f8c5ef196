"""Invisible words of a PDF page: white on white, in render mode 3, on a hidden layer, or under a filled box.

Words are left out only where the page, rendered, has a single colour in their place, and no picture: the text of a scan
is invisible too, and is what its picture shows.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import compress, groupby
from operator import not_
from typing import Any, NamedTuple

from specextend_cli.documents.pdf.glyphs import GlyphLine, Part, without_parts
from specextend_cli.documents.pdf.rendered_page import Box, RenderedPage

_MOST = 2_000  # paths on a page; with more it is a drawing
_MOST_PAIRS = 400_000  # of objects that are compared
_NEARLY_WHITE = 250
_OPAQUE = 255
_OVERLAP = 2.0  # points
_MOST_LAYERED = 0.5  # of the letters of a page; slides may reveal so many on a click
_LAYER_NAME = 6  # bytes of "OC" in UTF-16
_LETTERS = 2  # of a word; a full stop or a dash fills its box


class _Suspect(NamedTuple):
    """A text object that may be invisible; `layered`: it is on a layer, which may be switched off."""

    box: Box
    layered: bool


_Suspects = Mapping[int, _Suspect]  # by their addresses


class _Objects:
    """What PDFium tells about the objects of a page."""

    def __init__(self) -> None:
        from pypdfium2 import raw

        self._raw = raw
        self._edges = [ctypes.c_float() for _ in range(4)]
        self._colour = [ctypes.c_uint() for _ in range(4)]
        self._mode, self._stroked, self._length = ctypes.c_int(), ctypes.c_int(), ctypes.c_ulong()
        self._name = (raw.FPDF_WCHAR * 8)()

    def box(self, one: Any) -> Box:
        self._raw.FPDFPageObj_GetBounds(one, *self._edges)
        return Box(*(edge.value for edge in self._edges))

    def fill(self, one: Any) -> tuple[bool, bool]:
        """Whether an object is filled with white or with nothing, and whether it hides what is below it."""
        if not self._raw.FPDFPageObj_GetFillColor(one, *self._colour):
            return False, False
        red, green, blue, opacity = (part.value for part in self._colour)
        return opacity == 0 or min(red, green, blue) >= _NEARLY_WHITE, opacity == _OPAQUE

    def is_filled(self, path: Any) -> bool:
        drawn = self._raw.FPDFPath_GetDrawMode(path, self._mode, self._stroked)
        return bool(drawn) and self._mode.value != self._raw.FPDF_FILLMODE_NONE

    def is_on_a_layer(self, one: Any) -> bool:
        """True if marks of an object name a layer."""
        for number in range(self._raw.FPDFPageObj_CountMarks(one)):
            mark = self._raw.FPDFPageObj_GetMark(one, number)
            has_name = self._raw.FPDFPageObjMark_GetName(mark, self._name, 16, self._length)
            if has_name and self._length.value == _LAYER_NAME and bytes(self._name)[:4] == b"O\0C\0":
                return True
        return False


def _suspects_of(page: Any) -> _Suspects:
    """The text objects of a PDFium page that may be invisible, and lie on no picture."""
    from pypdfium2 import raw

    objects = [raw.FPDFPage_GetObject(page, number) for number in range(raw.FPDFPage_CountObjects(page))]
    kinds = list(map(raw.FPDFPageObj_GetType, objects))
    if kinds.count(raw.FPDF_PAGEOBJ_PATH) > _MOST:
        return {}
    told = _Objects()
    pictures, colored, covers = list[Box](), list[Box](), list[Box]()
    covered: dict[int, int] = {}  # the number of each text, and how many of the covers are drawn before it
    white, unseen, layered = set[int](), set[int](), set[int]()
    for number, (one, kind) in enumerate(zip(objects, kinds, strict=True)):
        if kind == raw.FPDF_PAGEOBJ_TEXT:
            if raw.FPDFTextObj_GetTextRenderMode(one) == raw.FPDF_TEXTRENDERMODE_INVISIBLE:
                unseen.add(number)
            elif told.is_on_a_layer(one):
                layered.add(number)
            elif told.fill(one)[0]:
                white.add(number)
            else:
                covered[number] = len(covers)
        elif kind != raw.FPDF_PAGEOBJ_PATH:
            pictures.append(told.box(one))
        elif told.is_filled(one):
            is_white, is_opaque = told.fill(one)
            if not is_white:
                colored.append(told.box(one))
            if is_opaque:
                covers.append(told.box(one))
    if len(covered) * len(covers) + len([*white, *unseen, *layered]) * len([*pictures, *colored]) > _MOST_PAIRS:
        return {}
    for number, first in covered.items():
        if first < len(covers) and _meets(told.box(objects[number]), covers[first:]):
            unseen.add(number)
    boxes = {number: told.box(objects[number]) for number in white | unseen | layered}
    return {
        ctypes.cast(objects[number], ctypes.c_void_p).value or 0: _Suspect(box, number in layered)
        for number, box in boxes.items()
        if not _meets(box, [*pictures, *colored] if number in white else pictures)
    }


def _meets(box: Box, others: Iterable[Box]) -> bool:
    """True if a box overlaps one of the others by more than its edges."""
    width, height = min(_OVERLAP, (box.right - box.left) / 2), min(_OVERLAP, (box.top - box.bottom) / 2)
    return any(
        min(box.right, other.right) - max(box.left, other.left) > width
        and min(box.top, other.top) - max(box.bottom, other.bottom) > height
        for other in others
    )


def without_invisible(lines: list[GlyphLine], page: Any) -> tuple[list[GlyphLine], list[str]]:
    """The lines of a PDFium text page without invisible words, and these; all lines where nothing else is left.

    Words are invisible if the page is the same without them, and if one of those beside them has a plain box: others
    are drawn on where it has not, and may be copies of them.
    """
    suspects = _suspects_of(page.page)
    words = list(_words(lines, suspects))
    boxes = [box for _, _, box in words if box]
    if not boxes:
        return lines, []
    picture = RenderedPage(page.page, boxes)
    plain = {id(word) for _, word, box in words if box and _letters(word[0]) >= _LETTERS and picture.is_plain(box)}
    if not plain:  # nearly every page that has suspects
        return lines, []
    _hide(suspects)
    rest = RenderedPage(page.page, boxes)
    parts: list[Part] = []
    for is_hidden, run in groupby(words, lambda found: found[2] is not None and picture.is_equal(rest, found[2])):
        group = list(run) if is_hidden else []
        if any(id(word) in plain for _, word, _ in group):
            for _, of_line in groupby(group, lambda found: id(found[0])):
                found = list(of_line)
                parts.append((found[0][0], found[0][1].start(), found[-1][1].end()))
    total = sum(_letters(line.body) for line in lines)
    on_layers = [_is_layered(line, start, suspects) for line, start, _ in parts]
    if sum(map(_letters_of, compress(parts, on_layers))) > _MOST_LAYERED * total:
        parts = list(compress(parts, map(not_, on_layers)))
    if not parts or sum(map(_letters_of, parts)) == total:
        return lines, []
    return without_parts(lines, parts), [line.body[start:end] for line, start, end in parts]


def _words(lines: Iterable[GlyphLine], suspects: _Suspects) -> Iterator[tuple[GlyphLine, re.Match[str], Box | None]]:
    """The words of lines, and the boxes of those that are suspects."""
    heights = {(suspect.box.bottom, suspect.box.top) for suspect in suspects.values()}
    for line in lines if suspects else ():
        y, size = line.head.center[1], line.size
        near = line.head.turn or any(low - size < y < high + size for low, high in heights)
        for word in re.finditer(r"\S+", line.body):
            places = range(line.first + word.start(), line.first + word.end())
            is_suspect = near and all(line.glyphs.object(at) in suspects for at in places)
            yield line, word, _ink(line, places) if is_suspect else None


def _ink(line: GlyphLine, places: Iterable[int]) -> Box:
    """The box of what is drawn of characters."""
    lefts, bottoms, rights, tops = zip(*map(line.glyphs.ink, places), strict=True)
    return Box(min(lefts), min(bottoms), max(rights), max(tops))


def _is_layered(line: GlyphLine, start: int, suspects: _Suspects) -> bool:
    found = suspects.get(line.glyphs.object(line.first + start) or 0)
    return found is not None and found.layered


def _letters_of(part: Part) -> int:
    line, start, end = part
    return _letters(line.body[start:end])


def _letters(text: str) -> int:
    return sum(map(str.isalnum, text))


def _hide(suspects: Iterable[int]) -> None:
    """Make text objects invisible, by their addresses."""
    from pypdfium2 import raw

    for address in suspects:
        raw.FPDFTextObj_SetTextRenderMode(ctypes.cast(address, raw.FPDF_PAGEOBJECT), raw.FPDF_TEXTRENDERMODE_INVISIBLE)
