"""Encoded data in a text: PEM and PGP blocks, base64, `data:` addresses. It is no text to be read."""

from __future__ import annotations

import re

ENCODED = "encoded data"
_ARMOR = re.compile(
    r"^-----BEGIN (?!PGP SIGNED)([A-Z][A-Z0-9 ]{2,40})-----[ \t]*\n(?:(?!-----).*\n)*-----END \1-----[ \t]*$", re.M
)
_DATA_URI = re.compile(r"\bdata:[\w.+-]{1,40}/[\w.+-]{1,60}(?:;[\w=.-]{1,40}){0,4};base64,[A-Za-z0-9+/=%]{40,}")
_BASE64 = re.compile(
    r"(?<![A-Za-z0-9+/=])[A-Za-z0-9+/]{200,}={0,2}(?![A-Za-z0-9+/=])"
    r"|^[A-Za-z0-9+/]{40,}={0,2}(?:\n[A-Za-z0-9+/]{40,}={0,2})*(?:\n(?=.*[0-9+/=])[A-Za-z0-9+/]{2,76}={0,2})?$",
    re.M,
)
_MIN = 100  # characters of a block without a frame
_SLASHES = 0.06  # of its characters: paths have more


def without_encoded(text: str) -> tuple[str, list[str]]:
    """The text without its encoded data, and what was taken out, each block as it stood."""
    removed: list[str] = []

    def take(match: re.Match[str]) -> str:
        if match.re is _BASE64 and not _is_base64(match[0]):
            return match[0]
        removed.append(match[0])
        return ""

    if "-----BEGIN " in text:
        text = _ARMOR.sub(take, text)
    if ";base64," in text:
        text = _DATA_URI.sub(take, text)
    return _BASE64.sub(take, text), removed


def _is_base64(data: str) -> bool:
    """True if this is encoded and no path, number, or sequence of one alphabet: letters of both cases and digits."""
    if len(data) < _MIN or data.count("/") > _SLASHES * len(data):
        return False
    kinds = [sum(map(test, data)) for test in (str.isupper, str.islower, str.isdigit)]
    return min(kinds) > 0 and kinds[0] > 0.1 * len(data)
