"""Text objects of a PDF page that may be invisible: white, in render mode 3, on a layer, or under a filled box."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Mapping
from typing import Any

from specextend_cli.documents.pdf.rendered_page import Box

_MOST = 2_000  # paths on a page; with more it is a drawing
_MOST_PAIRS = 400_000  # of objects that are compared
_NEARLY_WHITE = 250
_OPAQUE = 255
_OVERLAP = 2.0  # points


Suspects = Mapping[int, bool]
"""Text objects by their addresses, and whether they are on a layer."""


def suspects_of(page: Any) -> Suspects:
    """The text objects of a PDFium page that may be invisible, and lie on no picture."""
    from pypdfium2 import raw

    objects = [raw.FPDFPage_GetObject(page, number) for number in range(raw.FPDFPage_CountObjects(page))]
    kinds = list(map(raw.FPDFPageObj_GetType, objects))
    if kinds.count(raw.FPDF_PAGEOBJ_PATH) > _MOST:
        return {}
    pictures, colored, covers = list[Box](), list[Box](), list[Box]()
    covered: dict[int, int] = {}  # the number of each text, and how many of the covers are drawn before it
    white, unseen, layered = set[int](), set[int](), set[int]()
    for number, (one, kind) in enumerate(zip(objects, kinds, strict=True)):
        if kind == raw.FPDF_PAGEOBJ_TEXT:
            if raw.FPDFTextObj_GetTextRenderMode(one) == raw.FPDF_TEXTRENDERMODE_INVISIBLE:
                unseen.add(number)
            elif _is_on_a_layer(one):
                layered.add(number)
            elif _is_white(one):
                white.add(number)
            else:
                covered[number] = len(covers)
        elif kind != raw.FPDF_PAGEOBJ_PATH:
            pictures.append(_box(one))
        elif _is_filled(one):
            if not _is_white(one):
                colored.append(_box(one))
            if _is_opaque(one):
                covers.append(_box(one))
    if len(covered) * len(covers) + len([*white, *unseen, *layered]) * len([*pictures, *colored]) > _MOST_PAIRS:
        return {}
    unseen |= {
        number
        for number, first in covered.items()
        if first < len(covers) and _meets(_box(objects[number]), covers[first:])
    }
    found = [number for number in white if not _meets(_box(objects[number]), [*pictures, *colored])]
    found += (number for number in unseen | layered if not _meets(_box(objects[number]), pictures))
    return {ctypes.cast(objects[number], ctypes.c_void_p).value or 0: number in layered for number in found}


def hide(suspects: Iterable[int]) -> None:
    """Make text objects invisible, by their addresses."""
    from pypdfium2 import raw

    for address in suspects:
        raw.FPDFTextObj_SetTextRenderMode(ctypes.cast(address, raw.FPDF_PAGEOBJECT), raw.FPDF_TEXTRENDERMODE_INVISIBLE)


def _meets(box: Box, others: Iterable[Box]) -> bool:
    """True if a box overlaps one of the others by more than its edges."""
    width, height = min(_OVERLAP, (box.right - box.left) / 2), min(_OVERLAP, (box.top - box.bottom) / 2)
    return any(
        min(box.right, other.right) - max(box.left, other.left) > width
        and min(box.top, other.top) - max(box.bottom, other.bottom) > height
        for other in others
    )


def _box(one: Any) -> Box:
    from pypdfium2 import raw

    edges = [ctypes.c_float() for _ in range(4)]
    raw.FPDFPageObj_GetBounds(one, *edges)
    return Box(*(edge.value for edge in edges))


def _fill(one: Any) -> tuple[int, int, int, int] | None:
    """Red, green, blue and opacity of what fills an object; None if it is no colour."""
    from pypdfium2 import raw

    parts = [ctypes.c_uint() for _ in range(4)]
    if not raw.FPDFPageObj_GetFillColor(one, *parts):
        return None
    red, green, blue, opacity = (part.value for part in parts)
    return red, green, blue, opacity


def _is_white(one: Any) -> bool:
    fill = _fill(one)
    return fill is not None and (min(fill[:3]) >= _NEARLY_WHITE or fill[3] == 0)


def _is_opaque(one: Any) -> bool:
    fill = _fill(one)
    return fill is not None and fill[3] == _OPAQUE


def _is_filled(path: Any) -> bool:
    from pypdfium2 import raw

    mode, stroked = ctypes.c_int(), ctypes.c_int()
    return bool(raw.FPDFPath_GetDrawMode(path, mode, stroked)) and mode.value != raw.FPDF_FILLMODE_NONE


def _is_on_a_layer(one: Any) -> bool:
    """True if marks of an object name a layer, which may be switched off."""
    from pypdfium2 import raw

    name, length = ctypes.create_string_buffer(16), ctypes.c_ulong()
    for number in range(raw.FPDFPageObj_CountMarks(one)):
        mark = raw.FPDFPageObj_GetMark(one, number)
        has_name = raw.FPDFPageObjMark_GetName(mark, ctypes.cast(name, ctypes.POINTER(raw.FPDF_WCHAR)), 16, length)
        if has_name and name.raw[: max(length.value - 2, 0)] == "OC".encode("utf-16-le"):
            return True
    return False
