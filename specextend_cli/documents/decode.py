"""Bytes to text: by byte-order mark, by what the file declares, by trying."""

from __future__ import annotations

from contextlib import suppress

from specextend_cli.documents.detect import HEAD, encoding
from specextend_cli.documents.names import count

_REPLACED = "\ufffd"
_SURE = 6  # characters beyond ASCII that read as UTF-8 by chance hardly ever


def decode(name: str, data: bytes, declared: str | None = None) -> tuple[str, list[str]]:
    """Text with "\\n" line ends, and warnings that say when the encoding was guessed or bytes were replaced.

    `declared` is the codec that the file names. It is believed, and bytes that are wrong in it are replaced, unless
    most of what is beyond ASCII is wrong, or all of it reads as UTF-8.
    """
    first = encoding(data[:HEAD]) or "utf-8"
    if declared and first == "utf-8" and (found := _as_declared(name, data, declared)):
        return found
    try:
        return _line_ends(data.decode(first)), []
    except UnicodeDecodeError as error:
        text, bad = _replaced(data, first)
        # Few wrong bytes in much correct UTF-8 are damage; otherwise it is an 8-bit encoding of old.
        if first != "utf-8" or _beyond_ascii(text) - bad > bad:
            return _line_ends(text), [_damage(name, bad, first)]
        try:
            text = data.decode("cp1252")
            guess = "Windows-1252"
        except UnicodeDecodeError:
            text = data.decode("latin-1")
            guess = "Latin-1"
        high = sum(byte > 0x7F for byte in data)
        warning = f"{name} is not UTF-8 (byte {error.start}): read as {guess}, {count(high, 'byte')} beyond ASCII."
        return _line_ends(text), [warning]


def _as_declared(name: str, data: bytes, declared: str) -> tuple[str, list[str]] | None:
    """The text in the encoding that was declared; None where the bytes contradict it."""
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
    """The text with wrong bytes replaced, and how many characters were put for them."""
    text = data.decode(codec, "replace")
    return text, text.count(_REPLACED) - data.count(_REPLACED.encode()) if codec == "utf-8" else text.count(_REPLACED)


def _beyond_ascii(text: str) -> int:
    return sum(character > "\x7f" for character in text)


def _damage(name: str, bad: int, codec: str) -> str:
    return f"{count(bad, 'byte')} of {name} are not valid {codec.upper()} and were replaced by �."


def _line_ends(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n").replace("\x0b", "\n")
