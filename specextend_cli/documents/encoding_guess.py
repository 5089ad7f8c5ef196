"""The encoding of a text that is not UTF-8 and declares none, as chardet finds it; UTF-16 by its letters."""

from __future__ import annotations

import codecs
import unicodedata
from collections import Counter

_USUAL = "cp1252"  # where nothing speaks for another one
_LIKELY = (  # others are rarer than mistakes
    *("cp1252", "mac-roman", "cp850", "cp1250", "iso8859-2", "cp1251", "koi8-r", "koi8-u", "cp866", "iso8859-5"),
    *("mac-cyrillic", "cp1253", "cp1254", "cp1255", "cp1256", "cp1257", "cp874"),
    *("cp932", "euc-jp", "gb18030", "big5hkscs", "cp949"),
)
_LEAST = 0.09  # confidence; with less a text has too few letters beyond ASCII
_NAMES = {
    "big5hkscs": "Big5",
    "cp850": "code page 850",
    "cp866": "code page 866",
    "cp932": "Shift JIS",
    "cp949": "EUC-KR",
    "euc_jis_2004": "EUC-JP",
    "gb18030": "GB 18030",
    "iso8859-2": "ISO 8859-2",
    "iso8859-5": "ISO 8859-5",
    "koi8-r": "KOI8-R",
    "koi8-u": "KOI8-U",
    "mac-cyrillic": "Mac Cyrillic",
    "mac-roman": "Mac Roman",
}
_SAMPLE = 4_096  # bytes
_LETTERS = 16  # with less a text is too short to be told from other data
_MOST = 0.9  # of the letters are of one script, or Latin
_PAIRS = 0.6  # of the letters may be two ASCII characters each, as all Han letters are in a text that is not UTF-16
_PRINTED = range(0x20, 0x7F)
_SCRIPTS = dict.fromkeys(("CJK", "KATAKANA", "HANGUL"), "HIRAGANA")  # a text has several of them


def guess_utf16(head: bytes) -> str | None:
    """UTF-16 without a mark in any script, by its first bytes: each order is tried; None for other data.

    In the wrong order a text is letters of many scripts, or has no spaces.
    """
    found = {}
    for name in ("utf-16-le", "utf-16-be"):
        try:
            text = codecs.getincrementaldecoder(name)().decode(head[:_SAMPLE])
        except UnicodeDecodeError:
            continue
        if _is_writing(text):
            found[name] = sum(map(str.isascii, text))
    return max(found, key=found.__getitem__, default=None)


def _is_writing(text: str) -> bool:
    """True if a text has letters, marks, digits, punctuation and spaces only, and letters of one script and Latin."""
    scripts, pairs = Counter[str](), 0
    for letter in text:
        kind = unicodedata.category(letter)
        if kind in ("Cc", "Cn", "Co", "Cs") and letter not in "\t\n\r\f":
            return False
        if kind in ("Lu", "Ll", "Lt", "Lo"):
            script = unicodedata.name(letter, "").split(" ")[0]
            rare = "\u3400" <= letter < "\u4e00"  # Han letters that hardly any text has
            pairs += ord(letter) >> 8 in _PRINTED and ord(letter) & 0xFF in _PRINTED
            scripts["RARE" if rare else _SCRIPTS.get(script, script)] += 1
    latin = scripts.pop("LATIN", 0)
    most = max(scripts.values(), default=0)
    letters = latin + scripts.total()
    return scripts.total() >= _LETTERS and latin + most >= _MOST * letters and pairs <= _PAIRS * scripts.total()


def guess_encoding(data: bytes) -> str:
    """The likeliest encoding, as Python's codecs are named."""
    from chardet import detect

    # Many lines in ASCII would hide what a few others say.
    told = b"\n".join(line for line in data.split(b"\n") if not line.isascii())
    found = detect(told, compat_names=False, include_encodings=_LIKELY, no_match_encoding=_USUAL)
    codec, sure = found["encoding"], found["confidence"] >= _LEAST
    return codecs.lookup(codec).name if codec and sure else _USUAL


def name_of(codec: str) -> str:
    """What people call an encoding."""
    return _NAMES.get(codec) or codec.replace("cp", "Windows-")
