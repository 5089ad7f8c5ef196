"""A rendered PDF page, to see whether anything is drawn in a place."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

_SCALE = 1.0  # pixels a point
_PIXELS = 16e6
_AROUND = 2  # pixels
_SHADES = 8  # that one colour may have


class Box(NamedTuple):
    """Left, bottom, right and top on a page."""

    left: float
    bottom: float
    right: float
    top: float


class RenderedPage:
    """The part of a PDFium page that holds some boxes, without its forms and annotations."""

    def __init__(self, page: Any, boxes: Sequence[Box]) -> None:
        from pypdfium2 import raw

        width, height = page.get_size()
        scale = min(_SCALE, (_PIXELS / max(width * height, 1)) ** 0.5)
        self._raw, self._page = raw, page
        self._size = math.ceil(width * scale), math.ceil(height * scale)
        corners = [corner for box in boxes for corner in (self._pixel(*box[:2]), self._pixel(*box[2:]))]
        (left, right), (upper, lower) = (
            (max(min(ends) - _AROUND, 0), min(max(ends) + _AROUND, size))
            for ends, size in zip(zip(*corners, strict=True), self._size, strict=True)
        )
        self._left, self._upper, self._width, self._height = left, upper, right - left, lower - upper
        self._data, self._stride, self._channels = b"", 0, 1
        if self._width > 0 and self._height > 0:
            margins = (left, self._size[1] - lower, self._size[0] - right, upper)
            crop = tuple(margin / scale for margin in margins)
            bitmap = page.render(scale=scale, crop=crop, may_draw_forms=False, draw_annots=False)
            self._width, self._height = bitmap.width, bitmap.height
            self._data, self._stride, self._channels = bytes(bitmap.buffer), bitmap.stride, bitmap.n_channels

    def is_plain(self, box: Box) -> bool:
        """True if a box of the page, without its edges, has a single colour."""
        rows = self._rows(box, edge=1)
        channels = range(self._channels)
        return bool(rows) and all(_is_flat([row[channel :: self._channels] for row in rows]) for channel in channels)

    def is_equal(self, other: RenderedPage, box: Box) -> bool:
        """True if a box is the same on another rendering of the page."""
        return self._rows(box) == other._rows(box)

    def _rows(self, box: Box, edge: int = 0) -> list[bytes]:
        """The pixels of a box; none outside of the page."""
        (left, upper), (right, lower) = self._pixel(box.left, box.top), self._pixel(box.right, box.bottom)
        (left, right), (upper, lower) = sorted((left, right)), sorted((upper, lower))
        left, upper = left + edge, upper + edge
        left, right, upper, lower = left - self._left, right - self._left, upper - self._upper, lower - self._upper
        if not (0 <= left < right <= self._width and 0 <= upper < lower <= self._height):
            return []
        start, end = left * self._channels, right * self._channels
        return [
            self._data[at + start : at + end] for at in range(upper * self._stride, lower * self._stride, self._stride)
        ]

    def _pixel(self, x: float, y: float) -> tuple[int, int]:
        across, down = ctypes.c_int(), ctypes.c_int()
        self._raw.FPDF_PageToDevice(self._page, 0, 0, *self._size, 0, x, y, across, down)
        return across.value, down.value


def _is_flat(rows: Sequence[bytes]) -> bool:
    return max(map(max, rows)) - min(map(min, rows)) <= _SHADES
