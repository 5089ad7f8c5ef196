"""Letters that a PDF page puts together from several characters, and the buttons of captured web pages.

TeX draws an accent over its letter as a character of its own; a captured button is a word in a font of symbols.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

from specextend_cli.documents.pdf.glyphs import Glyphs

_COMBINING = dict(
    zip(
        "`^~´¨¸ˆ˜ˇ˘¯˙˚˝˛",
        "\u0300\u0302\u0303\u0301\u0308\u0327\u0302\u0303\u030c\u0306\u0304\u0307\u030a\u030b\u0328",
        strict=True,
    )
)
_ACCENT = re.compile(f"[{''.join(_COMBINING)}]")
_LETTER = re.compile("[A-Za-zıȷ]")
_DOTLESS = {"ı": "i", "ȷ": "j"}
_BUTTON = re.compile(r"\b(?:nmlkj(i)?|gfedc(b)?)\b")
_NEAR = 0.05  # of the height of a letter: a space is wider
_RAISED = 0.5  # of the height of a letter: how far the accents of capitals are above their place


def put_together(glyphs: Glyphs, text: str) -> dict[int, str]:
    """What characters of the text of a page stand for, by position; "" for those that belong to another."""
    found: dict[int, str] = {}
    for match in _ACCENT.finditer(text):
        at = match.start()
        for near in (at + 1, at - 1):
            if 0 <= near < len(text) and _LETTER.match(text, near) and near not in found and _is_on(glyphs, at, near):
                letter = _DOTLESS.get(text[near], text[near]) + _COMBINING[match[0]]
                if len(letter := unicodedata.normalize("NFC", letter)) == 1:
                    found |= {at: "", near: letter}
                    found |= dict.fromkeys(_false_spaces(glyphs, text, near, at), "")
                    break
    for match in _BUTTON.finditer(text):
        is_radio = text[match.start()] == "n"
        mark = (" ", "x")[bool(match[1] or match[2])]
        found |= dict.fromkeys(range(*match.span()), "")
        found[match.start()] = f"({mark})" if is_radio else f"[{mark}]"
    return found


def _false_spaces(glyphs: Glyphs, text: str, letter: int, accent: int) -> Iterator[int]:
    """The spaces that PDFium put beside a letter because of its accent."""
    _, low, _, high = glyphs.box(letter)
    before, behind = min(letter, accent) - 1, max(letter, accent) + 1
    for space, left, right in ((before, before - 1, letter), (behind, letter, behind + 1)):
        is_put = left >= 0 and right < len(text) and text[space] == " " and glyphs.generated(space)
        if is_put and abs(glyphs.box(right)[0] - glyphs.box(left)[2]) < _NEAR * (high - low):
            yield space


def _is_on(glyphs: Glyphs, accent: int, letter: int) -> bool:
    """True if the middle of an accent is over or under a letter."""
    left, bottom, right, _ = glyphs.box(accent)
    start, low, end, high = glyphs.box(letter)
    return start < (left + right) / 2 < end and abs(bottom - low) < _RAISED * (high - low)
