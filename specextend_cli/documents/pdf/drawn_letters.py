"""Letters that a PDF page puts together from several characters, and the buttons of captured web pages.

TeX draws an accent over its letter as a character of its own; a captured button is a word in a font of symbols.
"""

from __future__ import annotations

import re
import unicodedata

from specextend_cli.documents.pdf.glyphs import Glyphs

_COMBINING = dict(
    zip(
        "`^~´¨¸ˆ˜ˇ˘¯˙˚˝˛",
        "\u0300\u0302\u0303\u0301\u0308\u0327\u0302\u0303\u030c\u0306\u0304\u0307\u030a\u030b\u0328",
        strict=True,
    )
)
_ACCENT = re.compile(f"[{''.join(_COMBINING)}]")
_DOTLESS = {"ı": "i", "ȷ": "j"}
_BUTTON = re.compile(r"\b(?:nmlkj(i)?|gfedc(b)?)\b")
_RAISED = 0.5  # of the height of a letter: how far the accents of capitals are above their place


def put_together(glyphs: Glyphs, text: str) -> dict[int, str]:
    """What characters of the text of a page stand for, by position; "" for those that belong to another."""
    found: dict[int, str] = {}
    for match in _ACCENT.finditer(text):
        at = match.start()
        for near in (at + 1, at - 1):
            if 0 <= near < len(text) and text[near].isalpha() and near not in found and _is_on(glyphs, at, near):
                letter = _DOTLESS.get(text[near], text[near]) + _COMBINING[match[0]]
                if len(letter := unicodedata.normalize("NFC", letter)) == 1:
                    found |= {at: "", near: letter}
                    break
    for match in _BUTTON.finditer(text):
        is_radio = text[match.start()] == "n"
        mark = (" ", "x")[bool(match[1] or match[2])]
        found |= dict.fromkeys(range(*match.span()), "")
        found[match.start()] = f"({mark})" if is_radio else f"[{mark}]"
    return found


def _is_on(glyphs: Glyphs, accent: int, letter: int) -> bool:
    """True if the middle of an accent is over or under a letter."""
    left, bottom, right, _ = glyphs.box(accent)
    start, low, end, high = glyphs.box(letter)
    return start < (left + right) / 2 < end and abs(bottom - low) < _RAISED * (high - low)
