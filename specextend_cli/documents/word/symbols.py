"""Characters of the fonts Symbol and Wingdings, whose codes are those of other letters."""

from __future__ import annotations

import re

_SYMBOL = dict(zip(range(0x41, 0x5B), "ΑΒΧΔΕΦΓΗΙϑΚΛΜΝΟΠΘΡΣΤΥςΩΞΨΖ", strict=True))
_SYMBOL |= dict(zip(range(0x61, 0x7B), "αβχδεφγηιϕκλμνοπθρστυϖωξψζ", strict=True))
_SYMBOL |= dict(zip(range(0xA3, 0xA6), "≤⁄∞", strict=True)) | dict(zip(range(0xD1, 0xD8), "∇®©™∏√⋅", strict=True))
_SYMBOL |= dict(zip(range(0xAB, 0xBF), "↔←↑→↓°±″≥×∝∂•÷≠≡≈…⏐⎯", strict=True))
_SYMBOL |= {0x22: "∀", 0x24: "∃", 0x2D: "−", 0xCE: "∈", 0xCF: "∉", 0xDB: "⇔", 0xDE: "⇒", 0xE5: "∑", 0xF2: "∫"}
_WINGDINGS = {0x6F: "☐", 0xA8: "☐", 0xDF: "←", 0xE0: "→", 0xE1: "↑", 0xE2: "↓", 0xFC: "✓", 0xFD: "☒", 0xFE: "☑"}
_FONTS = {"symbol": _SYMBOL, "wingdings": _WINGDINGS}
_OTHER = "•"
_PRIVATE = re.compile("[\uf020-\uf0ff]")


def symbol(font: str, code: str) -> str:
    """The character with a code (hexadecimal) in a font; a bullet where it is not known."""
    characters = _FONTS.get(font.lower(), {})
    return characters.get(int(code, 16) & 0xFF, _OTHER) if re.fullmatch("[0-9A-Fa-f]{1,4}", code) else _OTHER


def with_symbols(font: str, text: str) -> str:
    """A text of which a file has the symbols at codes for private use."""
    if font.lower() not in _FONTS:
        return text
    return _PRIVATE.sub(lambda match: symbol(font, f"{ord(match[0]):x}"), text)
