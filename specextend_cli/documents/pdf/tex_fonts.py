"""Letters of TeX's bitmap fonts (Type 3): PDFium gives their codes, as they have neither a name nor a map to Unicode.

Text is set in one of two encodings, T1 (Cork) or OT1. The codes of their ligatures tell which one a font has.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import NamedTuple

_LIGATURES = ("ff", "fi", "fl", "ffi", "ffl")
_UPPER = "ĂĄĆČĎĚĘĞĹĽŁŃŇŊŐŔŘŚŠŞŤŢŰŮŸŹŽŻĲİđ§"
_LOWER = "ăąćčďěęğĺľłńňŋőŕřśšşťţűůÿźžżĳ¡¿£"
_T1_LIGATURES = dict(zip(range(0x1B, 0x20), _LIGATURES, strict=True))
_OT1_LIGATURES = dict(zip(range(0x0B, 0x10), _LIGATURES, strict=True))
_T1_ONLY = frozenset((0x9F, 0xFF))
"""The codes of "§" and "ß", which are no letters of other encodings, or hardly ever."""
_T1 = {
    **dict(zip(range(0x0D, 0x17), "‚‹›“”„«»–—", strict=True)),
    **{0x19: "ı", 0x27: "’", 0x60: "‘", 0xD7: "Œ", 0xDF: "SS", 0xF7: "œ", 0xFF: "ß"},
    **_T1_LIGATURES,
    **dict(enumerate(_UPPER + _LOWER, 0x80)),
}
_OT1 = {
    **{0x10: "ı", 0x22: "”", 0x27: "’", 0x3C: "¡", 0x3E: "¿", 0x5C: "“", 0x60: "‘", 0x7B: "–", 0x7C: "—"},
    **dict(enumerate("ßæœøÆŒØ", 0x19)),
    **_OT1_LIGATURES,
}
_SAMPLE = 50  # characters of a page that tell whether it has such fonts
_WORD = 3  # letters in a row; symbols in formulas stand alone
_ACCENTED = 0.6  # of the letters; Czech has 0.15, Russian in its own encoding nearly 1
_INNER = 0.005  # of the letters are accented capitals within words
_WORDS = 0.5  # of the letters of a font of text are in words


class Character(NamedTuple):
    """The code of a character and its font; `unmapped`: the font has no map to Unicode."""

    code: int
    font: int | None
    unmapped: bool


def letters_by_code(total: int, character: Callable[[int], Character]) -> dict[int, str]:
    """What the characters of bitmap fonts with a known encoding stand for, by their index on the page."""
    if not any(character(at).unmapped for at in range(0, total, max(total // _SAMPLE, 1))):
        return {}
    fonts: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)  # index and code of their characters
    for at in range(total):
        code, font, unmapped = character(at)
        if unmapped and font is not None:
            fonts[font].append((at, code))
    encodings = {font: _encoding(found) for font, found in fonts.items() if _is_text(found) and _is_latin(found)}
    if any(encoding is _T1 for encoding in encodings.values()):  # then fonts without ligatures have it too
        encodings = {font: encoding or _T1 for font, encoding in encodings.items()}
    return {
        at: encoding.get(code, chr(code))
        for font, encoding in encodings.items()
        if encoding
        for at, code in fonts[font]
    }


def _is_text(found: list[tuple[int, int]]) -> bool:
    """True if most letters of a font, without capitals, stand in words."""
    run = small = inside = 0
    before = -2
    for at, code in [*found, (-2, 0)]:
        is_small = 0x61 <= code <= 0x7A or code >= 0x80
        if not is_small or at != before + 1:
            inside += run if run >= _WORD else 0
            run = 0
        run += is_small
        small += is_small
        before = at
    return inside > _WORDS * small


def _is_latin(found: list[tuple[int, int]]) -> bool:
    """False if the codes are those of another script: in T1 they would be accented, or capitals within words."""
    letters = [code for _, code in found if chr(code).isalpha() or code >= 0x80]
    accented = sum(code >= 0x80 for code in letters)
    inner = sum(
        0x61 <= before <= 0x7A and (0x80 <= code < 0x9E or 0xC0 <= code < 0xDF)
        for (at, before), (next_at, code) in pairwise(found)
        if next_at == at + 1
    )
    return accented <= _ACCENTED * len(letters) and inner <= _INNER * len(letters)


def _encoding(found: list[tuple[int, int]]) -> Mapping[int, str] | None:
    """The encoding of a font of text by the codes that only one of them has."""
    codes = dict(found)
    beside_letters = [code for at, code in found if any(chr(codes.get(near, 0)).isalpha() for near in (at - 1, at + 1))]
    t1 = sum(code in _T1_LIGATURES for code in beside_letters) + sum(code in _T1_ONLY for code in codes.values())
    ot1 = sum(code in _OT1_LIGATURES for code in beside_letters)
    if t1 == ot1:
        return None
    return _T1 if t1 > ot1 else _OT1
