"""Bytes to text: by byte-order mark, by the declared encoding, by trial."""

from __future__ import annotations

import codecs
from contextlib import suppress

import webencodings

from specextend_cli.humanize import format_many

HEAD = 1 << 16
"""Number of bytes from the beginning of a file that are enough to identify its format."""
_REPLACED = "\ufffd"
# Python codecs that are supersets of the standard's encodings: GBK with all of Unicode; EUC-JP with NEC row 13.
_CODECS = {"gbk": "gb18030", "euc-kr": "cp949", "shift_jis": "cp932", "big5": "big5hkscs", "euc-jp": "euc_jis_2004"}
_REFUSED = frozenset(("replacement", "x-user-defined"))
_LIKELY = (  # others are rarer than mistakes
    *("cp1252", "mac-roman", "cp850", "cp1250", "iso8859-2", "cp1251", "koi8-r", "koi8-u", "cp866", "iso8859-5"),
    *("mac-cyrillic", "cp1253", "cp1254", "cp1255", "cp1256", "cp1257", "cp874"),
    *("cp932", "euc-jp", "gb18030", "big5hkscs", "cp949"),
)
_LEAST = 0.09  # confidence; with less a text has too few letters beyond ASCII, and is read as cp1252


def decode(name: str, data: bytes, declared: str | None = None) -> tuple[str, list[str]]:
    """Text with "\\n" line ends, and warnings where the encoding was guessed or bytes were replaced.

    `declared` is the codec that the file declares. It is used, with invalid bytes replaced, unless most of what is
    beyond ASCII is invalid in it, or all of it is valid UTF-8.
    """
    first = encoding(data[:HEAD]) or "utf-8"
    order = [first] if not declared or first != "utf-8" or _is_utf8(data) else [declared, first]
    for tried in order:
        with suppress(UnicodeDecodeError):
            return _line_ends(data.decode(tried)), []
        text, bad = _replaced(data, tried)
        # A few invalid bytes in much that is valid are damage; otherwise it is another encoding.
        if first != "utf-8" or sum(character > "\x7f" for character in text) - bad > bad:
            return _line_ends(text), [_damage(name, bad, tried.upper())]
    guess = _guess(data)
    text, bad = _replaced(data, codec(guess) or guess)
    high = format_many(sum(byte > 0x7F for byte in data), "byte")
    warning = f"{name} is not UTF-8: read as {guess}, {high} beyond ASCII."
    return _line_ends(text), [warning, *([_damage(name, bad, guess)] if bad else [])]


def _is_utf8(data: bytes) -> bool:
    """True if a text is valid UTF-8, and not ASCII."""
    with suppress(UnicodeDecodeError):
        return not data.decode("utf-8").isascii()
    return False


def _replaced(data: bytes, codec: str) -> tuple[str, int]:
    """The text with invalid bytes replaced, and the number of replacement characters."""
    text = data.decode(codec, "replace")
    return text, text.count(_REPLACED) - data.count(_REPLACED.encode()) if codec == "utf-8" else text.count(_REPLACED)


def _damage(name: str, bad: int, codec: str) -> str:
    return f"{format_many(bad, 'byte')} of {name} are not valid {codec} and were replaced by �."


def _line_ends(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n").replace("\x0b", "\n")


def encoding(head: bytes) -> str | None:
    """The encoding of a text by its first bytes: its byte-order mark, else "utf-8" to try; None for binary data."""
    for marks, name in (
        ((codecs.BOM_UTF8,), "utf-8-sig"),
        ((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE), "utf-32"),
        ((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE), "utf-16"),
    ):
        if head.startswith(marks):
            return name
    controls = sum(head.count(byte) for byte in (*range(1, 8), *range(14, 27), *range(28, 32), 127))
    return None if 0 in head or controls > max(2, 0.02 * len(head)) else "utf-8"


def _guess(data: bytes) -> str:
    """The likeliest encoding of a text that is not UTF-8 and declares none, as people call it."""
    from chardet import detect

    # Many lines in ASCII would hide what a few others say.
    told = b"\n".join(line for line in data.split(b"\n") if not line.isascii())
    found = detect(told, include_encodings=_LIKELY)
    return found["encoding"] if found["encoding"] and found["confidence"] >= _LEAST else "Windows-1252"


def codec(label: str) -> str | None:
    """The Python codec for a declared encoding, as browsers choose it; None for an unknown label.

    The WHATWG encoding standard maps old labels to what is really in use under them: "latin1" is Windows-1252,
    "gb2312" is GB 18030, "euc-kr" is code page 949 and "shift_jis" is code page 932.
    """
    found = webencodings.lookup(label)
    if found is None or found.name in _REFUSED:
        return None
    if found.name.startswith("utf-16"):
        return "utf-8"  # the label was read as ASCII, so it is wrong; real UTF-16 has zero bytes
    return _CODECS.get(found.name) or codecs.lookup(found.codec_info.name).name
