"""The label of an encoding, as pages and messages declare it, to the codec that browsers would use for it.

The WHATWG encoding standard reads old labels as what is really written under them: "latin1" is Windows-1252,
"gb2312" is GB 18030, "euc-kr" is code page 949 and "shift_jis" code page 932.
"""

from __future__ import annotations

import codecs

import webencodings

# Supersets of what the standard names, in Python's codecs: GBK with all of Unicode; EUC-JP with the characters of
# NEC's row 13 (circled digits and the like).
_CODECS = {
    "gbk": "gb18030",
    "euc-kr": "cp949",
    "shift_jis": "cp932",
    "big5": "big5hkscs",
    "euc-jp": "euc_jis_2004",
}
_REFUSED = frozenset(("replacement", "x-user-defined"))
# Labels that are not of the web, but of older mail and files. Python's other codecs (escapes, IDNA) are no encodings.
_OTHERS = ("cp1", "cp8", "cp9", "hz", "iso2022", "johab", "mac", "ptcp", "utf-32", "utf-7")


def codec(label: str) -> str | None:
    """The name of Python's codec for a declared encoding; None where the label means none."""
    found = webencodings.lookup(label)
    if found is not None and found.name not in _REFUSED:
        if found.name.startswith("utf-16"):
            return "utf-8"  # a label that can be read in ASCII lies; real UTF-16 shows by its zeros
        return _CODECS.get(found.name) or codecs.lookup(found.codec_info.name).name
    try:
        name = codecs.lookup(label).name
    except (LookupError, ValueError):
        return None
    return name if name.startswith(_OTHERS) else None
