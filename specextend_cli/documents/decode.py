"""Bytes to text: by byte-order mark, by the declared encoding, by trial."""

from __future__ import annotations

import codecs
from contextlib import suppress

import webencodings

from specextend_cli.documents.encoding_guess import guess_encoding, guess_utf16, name_of
from specextend_cli.humanize import format_many

HEAD = 1 << 16
"""Number of bytes from the beginning of a file that are enough to identify its format."""
_REPLACED = "\ufffd"
_SURE = 6  # characters beyond ASCII that are valid UTF-8 by chance hardly ever
# Python codecs that are supersets of the standard's encodings: GBK with all of Unicode; EUC-JP with NEC row 13.
_CODECS = {"gbk": "gb18030", "euc-kr": "cp949", "shift_jis": "cp932", "big5": "big5hkscs", "euc-jp": "euc_jis_2004"}
_REFUSED = frozenset(("replacement", "x-user-defined"))
# Labels used by older mail and files, not by the web. Python's other codecs (escapes, IDNA) are no text encodings.
_OTHERS = ("cp1", "cp8", "cp9", "hz", "iso2022", "johab", "mac", "ptcp", "utf-32", "utf-7")


def decode(name: str, data: bytes, declared: str | None = None) -> tuple[str, list[str]]:
    """Text with "\\n" line ends, and warnings where the encoding was guessed or bytes were replaced.

    `declared` is the codec that the file declares. It is used, with invalid bytes replaced, unless most of what is
    beyond ASCII is invalid in it, or all of it is valid UTF-8.
    """
    first = encoding(data[:HEAD]) or "utf-8"
    if declared and first == "utf-8" and (found := _as_declared(name, data, declared)):
        return found
    try:
        return _line_ends(data.decode(first)), []
    except UnicodeDecodeError as error:
        text, bad = _replaced(data, first)
        # A few invalid bytes in much valid UTF-8 are damage; otherwise it is an 8-bit encoding.
        if first != "utf-8" or _beyond_ascii(text) - bad > bad:
            return _line_ends(text), [_damage(name, bad, first)]
        guess = guess_encoding(data)
        text, bad = _replaced(data, guess)
        high = format_many(sum(byte > 0x7F for byte in data), "byte")
        warning = f"{name} is not UTF-8 (byte {error.start}): read as {name_of(guess)}, {high} beyond ASCII."
        return _line_ends(text), [warning, *([_damage(name, bad, guess)] if bad else [])]


def _as_declared(name: str, data: bytes, declared: str) -> tuple[str, list[str]] | None:
    """The text in the declared encoding; None where the bytes contradict it."""
    if declared != "utf-8" and not data.isascii():
        with suppress(UnicodeDecodeError):
            text = data.decode("utf-8")
            if declared == "cp1252" or _beyond_ascii(text) >= _SURE:
                return _line_ends(text), []
    with suppress(UnicodeDecodeError):
        return _line_ends(data.decode(declared)), []
    text, bad = _replaced(data, declared)
    if declared == "utf-8" or bad > _beyond_ascii(text) - bad:
        return None
    return _line_ends(text), [_damage(name, bad, declared)]


def _replaced(data: bytes, codec: str) -> tuple[str, int]:
    """The text with invalid bytes replaced, and the number of replacement characters."""
    text = data.decode(codec, "replace")
    return text, text.count(_REPLACED) - data.count(_REPLACED.encode()) if codec == "utf-8" else text.count(_REPLACED)


def _beyond_ascii(text: str) -> int:
    return sum(character > "\x7f" for character in text)


def _damage(name: str, bad: int, codec: str) -> str:
    return f"{format_many(bad, 'byte')} of {name} are not valid {codec.upper()} and were replaced by �."


def _line_ends(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n").replace("\x0b", "\n")


def encoding(head: bytes) -> str | None:
    """The encoding of a text by its first bytes: its byte-order mark, its zero bytes, else "utf-8" to try.

    None for binary data.
    """
    for marks, name in (
        ((codecs.BOM_UTF8,), "utf-8-sig"),
        ((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE), "utf-32"),
        ((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE), "utf-16"),
    ):
        if head.startswith(marks):
            return name
    zeros = head.count(0)
    if zeros:
        many = zeros > 0.6 * max(len(head) // 2, 1)
        for name, first in (("utf-16-le", 1), ("utf-16-be", 0)):
            if many and head[first::2].count(0) > 0.95 * zeros:
                return name
    controls = sum(head.count(byte) for byte in (*range(1, 8), *range(14, 27), *range(28, 32), 127))
    return guess_utf16(head) if zeros or controls > max(2, 0.02 * len(head)) else "utf-8"


def codec(label: str) -> str | None:
    """The Python codec for a declared encoding, as browsers choose it; None for an unknown label.

    The WHATWG encoding standard maps old labels to what is really in use under them: "latin1" is Windows-1252,
    "gb2312" is GB 18030, "euc-kr" is code page 949 and "shift_jis" is code page 932.
    """
    found = webencodings.lookup(label)
    if found is not None and found.name not in _REFUSED:
        if found.name.startswith("utf-16"):
            return "utf-8"  # the label was read as ASCII, so it is wrong; real UTF-16 has zero bytes
        return _CODECS.get(found.name) or codecs.lookup(found.codec_info.name).name
    try:
        name = codecs.lookup(label).name
    except (LookupError, ValueError):
        return None
    return name if name.startswith(_OTHERS) else None
