"""Text in UTF-16 code units, as PDFium counts positions: a character beyond U+FFFF is two of them."""

from __future__ import annotations

import re

_WIDE = re.compile("[\U00010000-\U0010ffff]")
_PAIR = re.compile("([\ud800-\udbff])([\udc00-\udfff])")


def to_units(text: str) -> str:
    """Replace characters beyond U+FFFF by surrogate pairs."""
    return _WIDE.sub(lambda match: _pair(ord(match[0]) - 0x10000), text)


def from_units(text: str) -> str:
    """Replace surrogate pairs by their characters."""
    return _PAIR.sub(lambda match: chr(0x10000 + ((ord(match[1]) - 0xD800) << 10) + ord(match[2]) - 0xDC00), text)


def _pair(code: int) -> str:
    return chr(0xD800 + (code >> 10)) + chr(0xDC00 + (code & 0x3FF))
