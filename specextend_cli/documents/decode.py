"""Bytes to text: by byte-order mark, by what the file declares, by trying."""

from __future__ import annotations

from contextlib import suppress

from specextend_cli.documents.detect import HEAD, encoding
from specextend_cli.documents.names import count


def decode(name: str, data: bytes, declared: str | None = None) -> tuple[str, list[str]]:
    """Text with "\\n" line ends, and warnings that say when the encoding was guessed or bytes were replaced.

    What the file declares is believed where its bytes agree. Bytes that read as UTF-8 beyond ASCII hardly ever are
    Windows-1252, whatever they are declared to be.
    """
    warnings: list[str] = []
    first = encoding(data[:HEAD]) or "utf-8"
    if declared and first == "utf-8":
        for codec in ("utf-8", declared) if declared == "cp1252" else (declared,):
            with suppress(UnicodeDecodeError):
                return _line_ends(data.decode(codec)), warnings
    try:
        text = data.decode(first)
    except UnicodeDecodeError as error:
        replaced = data.decode(first, "replace")
        bad = replaced.count("\ufffd") - data.count("\ufffd".encode())
        # Few wrong bytes in much correct UTF-8 are damage; otherwise it is an 8-bit encoding of old.
        multibyte = sum(character > "\x7f" for character in replaced) - bad
        if first != "utf-8" or multibyte > bad:
            text = replaced
            warnings.append(f"{count(bad, 'byte')} of {name} are not valid {first.upper()} and were replaced by �.")
        else:
            try:
                text = data.decode("cp1252")
                guess = "Windows-1252"
            except UnicodeDecodeError:
                text = data.decode("latin-1")
                guess = "Latin-1"
            high = sum(byte > 0x7F for byte in data)
            warnings.append(
                f"{name} is not UTF-8 (byte {error.start}): read as {guess}, {count(high, 'byte')} beyond ASCII."
            )
    return _line_ends(text), warnings


def _line_ends(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n").replace("\x0b", "\n")
