"""Encoded data in a text: base64, PEM and PGP blocks, uuencoded files, `data:` addresses. It is no text to be read."""

from __future__ import annotations

import re
from itertools import groupby

ENCODED = "encoded data"
_ARMOR = re.compile(
    r"^-----BEGIN (?!PGP SIGNED)([A-Z][A-Z0-9 ]{2,40})-----[ \t]*\n(?:(?!-----).*\n)*-----END \1-----[ \t]*$", re.M
)
_UUENCODED = re.compile(r"^begin [0-7]{3,4} \S.*\n(?:[ -`]{1,61}\n)*`?[ \t]*\n?end[ \t]*$", re.M)
_DATA_URI = re.compile(r"\bdata:[\w.+-]{1,40}/[\w.+-]{1,60}(?:;[\w=.-]{1,40}){0,4};base64,[A-Za-z0-9+/=%]{40,}")
_LONG = re.compile(r"(?<![A-Za-z0-9+/=])[A-Za-z0-9+/]{200,}={0,2}(?![A-Za-z0-9+/=])")
_LINE = re.compile(r"[A-Za-z0-9+/]{40,}={0,2}")
_LAST = re.compile(r"[A-Za-z0-9+/]{1,76}={0,2}")
_PLAIN_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|\d+")
_MIN = 100  # characters of a block without a frame
_SLASHES = 0.06  # of its characters: paths have more


def without_encoded(text: str) -> tuple[str, list[str]]:
    """The text without its encoded data, and what was taken out, each block as it stood."""
    removed: list[str] = []

    def take(match: re.Match[str]) -> str:
        if match.re is _LONG and not _is_base64(match[0]):
            return match[0]
        removed.append(match[0])
        return ""

    if "-----BEGIN " in text:
        text = _ARMOR.sub(take, text)
    if "\nbegin " in f"\n{text}":
        text = _UUENCODED.sub(take, text)
    if ";base64," in text:
        text = _DATA_URI.sub(take, text)
    return _LONG.sub(take, _without_blocks(text, removed)), removed


def _without_blocks(text: str, removed: list[str]) -> str:
    """The text without adjacent lines that are base64, nothing else in them."""
    if _LINE.search(text) is None:
        return text
    kept: list[str] = []
    block: list[str] = []
    for is_data, lines in groupby(text.split("\n"), key=lambda line: _LINE.fullmatch(line.strip()) is not None):
        if is_data:
            block = list(lines)
            if not _is_base64("".join(line.strip() for line in block)):
                kept += block
                block = []
            continue
        rest = list(lines)
        if block:
            last = rest[0].strip()
            # The last line of a block is shorter. A word by itself is a signature or the like.
            if _LAST.fullmatch(last) and len(block) > 1 and not _PLAIN_WORD.fullmatch(last):
                block.append(rest.pop(0))
            removed.append("\n".join(block))
            block = []
        kept += rest
    if block:
        removed.append("\n".join(block))
    return "\n".join(kept)


def _is_base64(data: str) -> bool:
    """True if this is encoded and no path, number, or sequence of one alphabet: letters of both cases and digits."""
    if len(data) < _MIN or data.count("/") > _SLASHES * len(data):
        return False
    kinds = [sum(map(test, data)) for test in (str.isupper, str.islower, str.isdigit)]
    return min(kinds) > 0 and kinds[0] > 0.1 * len(data)
