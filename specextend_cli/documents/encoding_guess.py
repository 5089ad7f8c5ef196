"""The encoding of a text that is not UTF-8 and declares none, as chardet finds it."""

from __future__ import annotations

import codecs

_USUAL = "cp1252"  # where nothing speaks for another one
_LIKELY = (  # others are rarer than mistakes
    *("cp1252", "mac-roman", "cp850", "cp1250", "iso8859-2", "cp1251", "koi8-r", "koi8-u", "cp866", "iso8859-5"),
    *("mac-cyrillic", "cp1253", "cp1255", "cp1256", "cp874"),
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
