"""Where the characters of a PDFium text page stand, and in which type."""

from __future__ import annotations

import ctypes
import math
from dataclasses import dataclass
from typing import Any

_SLANT = 0.06  # of a quarter turn
_MOST = 1e6  # points


@dataclass(slots=True)
class Glyph:
    """Where one character stands, in points, along the direction of its line; `center` is on the page."""

    left: float
    right: float
    base: float
    size: float
    slanted: bool
    center: tuple[float, float]


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
        left, right, base = (
            (box.left, box.right, y),
            (box.bottom, box.top, -x),
            (-box.right, -box.left, -y),
            (-box.top, -box.bottom, x),
        )[round(turns) % 4]
        slanted = abs(turns - round(turns)) > _SLANT
        return Glyph(_sane(left), _sane(right), _sane(base), size, slanted, center)

    def bold(self, position: int) -> bool:
        """Whether that character is set in bold, by its font's name or flags."""
        index = self._raw.FPDFText_GetCharIndexFromTextIndex(self._page, position)
        length = self._raw.FPDFText_GetFontInfo(self._page, index, self._name, len(self._name), self._flags)
        name = self._name.raw[: min(max(length - 1, 0), len(self._name))].lower()
        return b"bold" in name or b"black" in name or b"heavy" in name or self._flags.value & (1 << 18) != 0


def _sane(value: float) -> float:
    """A measure in hundredths, whatever a damaged file says: no infinities, which nobody can round."""
    return round(min(max(value, -_MOST), _MOST), 2) if math.isfinite(value) else 0.0
