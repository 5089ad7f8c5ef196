"""Where the characters of a PDFium text page stand, and in which type."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

_SLANT = 0.06  # of a quarter turn
_MOST = 1e6  # points


@dataclass(slots=True)
class Glyph:
    """Where one character stands, in points, along the direction of its line; `center` is on the page.

    `turn`: that direction, in quarter turns counterclockwise from left to right.
    """

    left: float
    right: float
    base: float
    size: float
    slanted: bool
    center: tuple[float, float]
    turn: int


class Glyphs:
    """Positions and weights of the characters of a PDFium text page, asked for one by one: most are never needed."""

    def __init__(self, page: Any) -> None:
        from pypdfium2 import raw

        self._raw, self._page = raw, page.raw
        self._box, self._matrix = raw.FS_RECTF(), raw.FS_MATRIX()
        self._x, self._y = ctypes.c_double(), ctypes.c_double()
        self._name, self._flags = ctypes.create_string_buffer(128), ctypes.c_int()

    def at(self, position: int) -> Glyph:
        """The character at a position of the page's text."""
        index = self._raw.FPDFText_GetCharIndexFromTextIndex(self._page, position)
        self._raw.FPDFText_GetLooseCharBox(self._page, index, self._box)
        self._raw.FPDFText_GetCharOrigin(self._page, index, self._x, self._y)
        self._raw.FPDFText_GetMatrix(self._page, index, self._matrix)
        scale = math.hypot(self._matrix.c, self._matrix.d)
        size = _sane(self._raw.FPDFText_GetFontSize(self._page, index) * scale)
        box, x, y = self._box, self._x.value, self._y.value
        turns = _sane(math.atan2(self._matrix.b, self._matrix.a) / (math.pi / 2))
        center = ((box.left + box.right) / 2, (box.bottom + box.top) / 2)
        turn = round(turns) % 4
        left, right = _span(box, turn)
        slanted = abs(turns - round(turns)) > _SLANT
        return Glyph(_sane(left), _sane(right), _sane((y, -x, -y, x)[turn]), size, slanted, center, turn)

    def spans(self, first: int, count: int, turn: int) -> list[tuple[float, float]]:
        """The left and right ends of `count` characters of a line that runs in direction `turn` (see `Glyph`)."""
        box, found = self._box, []
        for position in range(first, first + count):
            index = self._raw.FPDFText_GetCharIndexFromTextIndex(self._page, position)
            self._raw.FPDFText_GetLooseCharBox(self._page, index, box)
            left, right = _span(box, turn)
            found.append((left, right) if -_MOST < left < _MOST and -_MOST < right < _MOST else (0.0, 0.0))
        return found

    def alike(self, positions: Iterable[int]) -> bool:
        """Whether characters of an upright line are of one size, by the heights of their boxes: a cheap first look."""
        box, heights = self._box, []
        for position in positions:
            index = self._raw.FPDFText_GetCharIndexFromTextIndex(self._page, position)
            self._raw.FPDFText_GetLooseCharBox(self._page, index, box)
            heights.append(abs(box.top - box.bottom))
        return bool(min(heights) >= 0.9 * max(heights))

    def generated(self, position: int) -> bool:
        """Whether the file does not have that character: PDFium put it there, as it does spaces in gaps."""
        index = self._raw.FPDFText_GetCharIndexFromTextIndex(self._page, position)
        return bool(self._raw.FPDFText_IsGenerated(self._page, index) == 1)

    def bold(self, position: int) -> bool:
        """Whether that character is set in bold, by its font's name or flags."""
        index = self._raw.FPDFText_GetCharIndexFromTextIndex(self._page, position)
        length = self._raw.FPDFText_GetFontInfo(self._page, index, self._name, len(self._name), self._flags)
        name = self._name.raw[: min(max(length - 1, 0), len(self._name))].lower()
        return b"bold" in name or b"black" in name or b"heavy" in name or self._flags.value & (1 << 18) != 0


def _span(box: Any, turn: int) -> tuple[float, float]:
    """Where a box begins and ends along a line that runs in direction `turn`."""
    if turn == 0:
        return box.left, box.right
    return ((box.bottom, box.top), (-box.right, -box.left), (-box.top, -box.bottom))[turn - 1]


def _sane(value: float) -> float:
    """A measure in hundredths, whatever a damaged file says: no infinities, which nobody can round."""
    return round(min(max(value, -_MOST), _MOST), 2) if math.isfinite(value) else 0.0
