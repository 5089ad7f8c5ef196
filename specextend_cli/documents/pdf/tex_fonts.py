"""Letters of TeX's bitmap fonts (Type 3), whose glyphs have numbers instead of names, and which have no map to Unicode.

Text is set in one of two encodings, T1 (Cork) or OT1. A font has the glyphs that are used: their codes tell which one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

_LIGATURES = ("ff", "fi", "fl", "ffi", "ffl")
_UPPER = "ĂĄĆČĎĚĘĞĹĽŁŃŇŊŐŔŘŚŠŞŤŢŰŮŸŹŽŻĲİđ§"
_LOWER = "ăąćčďěęğĺľłńňŋőŕřśšşťţűůÿźžżĳ¡¿£"
_T1 = {
    **dict(zip(range(0x0D, 0x17), "‚‹›“”„«»–—", strict=True)),
    **{0x19: "ı", 0x27: "’", 0x60: "‘", 0xD7: "Œ", 0xDF: "SS", 0xF7: "œ", 0xFF: "ß"},
    **dict(enumerate(_LIGATURES, 0x1B)),
    **dict(enumerate(_UPPER + _LOWER, 0x80)),
}
_OT1 = {
    **{0x10: "ı", 0x22: "”", 0x27: "’", 0x3C: "¡", 0x3E: "¿", 0x5C: "“", 0x60: "‘", 0x7B: "–", 0x7C: "—"},
    **dict(enumerate("ßæœøÆŒØ", 0x19)),
    **dict(enumerate(_LIGATURES, 0x0B)),
}
_OT1_ONLY = frozenset(range(0x0B, 0x10))
_T1_ONLY = frozenset((*range(0x1B, 0x20), *range(0x80, 0x100)))
_STOPS = frozenset(map(ord, ",.-"))  # not in the fonts of formulas
_FEWEST = 8  # small letters
_ACCENTED = 2  # times as many accented letters: those are of another script


def letters_of(codes: Collection[int]) -> Mapping[int, str]:
    """What the codes that a font has stand for; nothing where it is not one of Latin text."""
    known = frozenset(codes)
    small = sum(0x61 <= code <= 0x7A for code in known)
    if small < _FEWEST or not known & _STOPS or sum(code >= 0x80 for code in known) > _ACCENTED * small:
        return {}
    t1, ot1 = len(known & _T1_ONLY), len(known & _OT1_ONLY)
    encoding = _T1 if t1 > ot1 else _OT1 if ot1 else {}
    return {code: encoding.get(code, chr(code)) for code in known}
