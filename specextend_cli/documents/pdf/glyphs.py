"""The positions and the type of the characters of a PDFium text page, one by one and by line."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

_SLANT = 0.06  # of a quarter turn
_FLOATING = 0.2  # sizes
_MAX = 1e6  # points
_SAMPLE = 400  # characters of a page that are checked for a mapping to letters

Repair = tuple[str, str, str]
"""The kind of a repair, and the text of a line before and after it."""


@dataclass(slots=True)
class Glyph:
    """The position of one character in points along the direction of its line; `center` is on the page.

    `turn`: that direction, in quarter turns counterclockwise.
    """

    left: float
    right: float
    base: float
    size: float
    slanted: bool
    center: tuple[float, float]
    turn: int


class Glyphs:
    """Access to the characters of a PDFium text page one by one, as most of them are never needed."""

    def __init__(self, page: Any) -> None:
        from pypdfium2 import raw

        self._raw, self._page, self._total = raw, page.raw, page.count_chars()
        self.returns: set[int] = set()  # positions at which the text goes back on its line
        self._boxes: dict[int, tuple[float, float, float, float]] = {}
        self._box, self._matrix = raw.FS_RECTF(), raw.FS_MATRIX()
        self._ink = tuple(ctypes.c_double() for _ in range(4))
        self._x, self._y = ctypes.c_double(), ctypes.c_double()
        self._name, self._flags = ctypes.create_string_buffer(128), ctypes.c_int()

    def unmapped(self) -> float:
        """The share of characters whose fonts do not map them to letters: PDFium then gives their codes."""
        sample = range(0, self._total, max(self._total // _SAMPLE, 1))
        codes = sum(bool(self._raw.FPDFText_HasUnicodeMapError(self._page, at) == 1) for at in sample)
        return codes / max(len(sample), 1)

    def box(self, position: int) -> tuple[float, float, float, float]:
        """Left, bottom, right and top of a character and the room around it."""
        found = self._boxes.get(position)
        if found is None:
            box = self._box
            self._raw.FPDFText_GetLooseCharBox(self._page, position, box)
            found = self._boxes[position] = box.left, box.bottom, box.right, box.top
        return found

    def at(self, position: int) -> Glyph:
        """The character at a position of the page's text."""
        box = left, bottom, right, top = self.box(position)
        self._raw.FPDFText_GetCharOrigin(self._page, position, self._x, self._y)
        self._raw.FPDFText_GetMatrix(self._page, position, self._matrix)
        scale = math.hypot(self._matrix.c, self._matrix.d)
        size = _bounded(self._raw.FPDFText_GetFontSize(self._page, position) * scale)
        x, y = self._x.value, self._y.value
        turns = _bounded(math.atan2(self._matrix.b, self._matrix.a) / (math.pi / 2))
        center = ((left + right) / 2, (bottom + top) / 2)
        turn = round(turns) % 4
        left, right = _span(box, turn)
        slanted = abs(turns - round(turns)) > _SLANT
        return Glyph(_bounded(left), _bounded(right), _bounded((y, -x, -y, x)[turn]), size, slanted, center, turn)

    def span(self, position: int, turn: int) -> tuple[float, float]:
        """The left and right ends of a character of a line in direction `turn` (see `Glyph`)."""
        left, right = _span(self.box(position), turn)
        return (left, right) if -_MAX < left < _MAX and -_MAX < right < _MAX else (0.0, 0.0)

    def same_height(self, positions: Iterable[int]) -> bool:
        """True if the boxes of characters of an upright line are of one height: a cheap first test of their size."""
        heights = [abs(top - bottom) for _, bottom, _, top in map(self.box, positions)]
        return min(heights) >= 0.9 * max(heights)

    def floats(self, position: int, beside: Iterable[int]) -> bool:
        """True if an upright digit is drawn far above the base line of the characters beside it.

        It may be of their size: some fonts have raised digits, and WeasyPrint makes superscripts hardly smaller.
        """
        _, bottom, _, top = self.ink(position)
        glyph, others = self.at(position), list(map(self.at, beside))
        if glyph.turn or glyph.slanted or any(abs(glyph.base - other.base) > glyph.size for other in others):
            return False
        base = max((other.base for other in others), default=glyph.base)
        return bool(others) and _FLOATING * glyph.size < bottom - base < top - base < 1.5 * glyph.size

    def may_jump(self, before: int, after: int) -> bool:
        """True if the second of two characters may be left of the first: a cheap first test."""
        _, bottom, right, top = self.box(before)
        left, level, _, _ = self.box(after)
        return abs(level - bottom) > 0.1 * (top - bottom) or left < right

    def generated(self, position: int) -> bool:
        """True if PDFium inserted the character, as it does for spaces in gaps; the file does not have it."""
        return bool(self._raw.FPDFText_IsGenerated(self._page, position) == 1)

    def ink(self, position: int) -> tuple[float, float, float, float]:
        """Left, bottom, right and top of what is drawn of a character."""
        left, right, bottom, top = self._ink
        self._raw.FPDFText_GetCharBox(self._page, position, left, right, bottom, top)
        return left.value, bottom.value, right.value, top.value

    def object(self, position: int) -> int | None:
        """The address of the text object that draws a character."""
        text_object = self._raw.FPDFText_GetTextObject(self._page, position)
        return ctypes.cast(text_object, ctypes.c_void_p).value

    def bold(self, position: int) -> bool:
        """True if the character is bold, by the name or the flags of its font."""
        size = len(self._name)
        length = self._raw.FPDFText_GetFontInfo(self._page, position, self._name, size, self._flags)
        name = self._name.raw[: min(max(length - 1, 0), size)].lower()
        return b"bold" in name or b"black" in name or b"heavy" in name or self._flags.value & (1 << 18) != 0


def _span(box: tuple[float, float, float, float], turn: int) -> tuple[float, float]:
    """The ends of a box along a line in direction `turn`."""
    left, bottom, right, top = box
    return ((left, right), (bottom, top), (-right, -left), (-top, -bottom))[turn]


def _bounded(value: float) -> float:
    """A measure rounded to hundredths; damaged files have infinities and absurd values."""
    if -_MAX < value < _MAX:
        return round(value, 2)
    return math.copysign(_MAX, value) if math.isfinite(value) else 0.0


@dataclass
class GlyphLine:
    """A line of a text page: `body[n]` is the character at `first + n` of the page's text.

    `head` and `tail` are its first and last character on the base line. `gaps`: left and right ends of the wide
    spaces, which are tabs in its text. `changed`: replacements of characters of the body by their index.
    """

    glyphs: Glyphs
    body: str
    first: int
    left: float
    right: float
    head: Glyph
    tail: Glyph
    gaps: list[tuple[float, float]] = field(default_factory=list)
    changed: dict[int, str] = field(default_factory=dict)

    @property
    def size(self) -> float:
        """That of the larger end."""
        return max(self.head.size, self.tail.size)

    @property
    def base(self) -> float:
        """That of the larger end."""
        return self.head.base if self.head.size >= self.tail.size else self.tail.base

    @cached_property
    def spans(self) -> list[tuple[float, float]]:
        """The left and right ends of all characters."""
        return [self.glyphs.span(self.first + at, self.head.turn) for at in range(len(self.body))]

    @property
    def text(self) -> str:
        """The body with its changes."""
        if not self.changed:
            return self.body
        return "".join(self.changed.get(at, letter) for at, letter in enumerate(self.body))
