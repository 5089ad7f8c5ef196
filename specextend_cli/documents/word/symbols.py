"""Characters of the fonts Symbol and Wingdings, whose codes are those of other letters: Greek, signs, arrows, boxes."""

from __future__ import annotations

import re

_GREEK = "ΑΒΧΔΕΦΓΗΙϑΚΛΜΝΟΠΘΡΣΤΥςΩΞΨΖ"  # at the codes of A to Z
_SYMBOL = {
    **{0x41 + at: letter for at, letter in enumerate(_GREEK)},
    **{0x61 + at: letter for at, letter in enumerate("αβχδεφγηιϕκλμνοπθρστυϖωξψζ")},
    **dict(zip(range(0xA3, 0xA6), "≤⁄∞", strict=True)),
    **dict(zip(range(0xAB, 0xBF), "↔←↑→↓°±″≥×∝∂•÷≠≡≈…⏐⎯", strict=True)),
    **{0x22: "∀", 0x24: "∃", 0x2D: "−", 0xC5: "⊕", 0xC7: "∩", 0xC8: "∪", 0xCC: "⊂", 0xCE: "∈", 0xCF: "∉", 0xD1: "∇"},
    **{0xD2: "®", 0xD3: "©", 0xD4: "™", 0xD6: "√", 0xD7: "⋅", 0xDB: "⇔", 0xDC: "⇐", 0xDE: "⇒", 0xE5: "∑", 0xF2: "∫"},
}
_WINGDINGS = {
    **{0x4A: "☺", 0x4C: "☹", 0x6F: "☐", 0xA8: "☐", 0xFC: "✓", 0xFD: "☒", 0xFE: "☑", 0xFB: "✗"},
    **{0xDF: "←", 0xE0: "→", 0xE1: "↑", 0xE2: "↓", 0xE7: "←", 0xE8: "→", 0xE9: "↑", 0xEA: "↓", 0xF0: "⇨"},
}
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
