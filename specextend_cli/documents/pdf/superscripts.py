"""Raised characters of a PDFium text page as superscripts: exponents and the marks of notes."""

from __future__ import annotations

import re

from specextend_cli.documents.line import HYPHEN, SUPERSCRIPT_LETTERS, raised
from specextend_cli.documents.pdf.glyphs import Glyph, Glyphs

_SMALLER = 0.85  # of the size of the type beside it: raised characters are smaller

# What may be a superscript: digits with their sign, also those of several note marks (commas and dashes between them),
# and single small letters at the end of a word (not two, as in 1st) or alone at the beginning of a line.
_SUPERSCRIPT = re.compile(
    r"(?P<digits>[+\-−–]?\d{1,24}(?:[.,–-]\d{1,4}){0,6})|(?<=[^\W_])[a-z](?![\w’'])"
    r"|(?<=[.,;:)\]%”\"])[a-z](?![\w’'.)])|^[ ]*[a-z](?=\s|[A-Z])",
    re.MULTILINE,
)

_DECIMAL = re.compile(r"\d(?:\.\d|%)")

_STROKES = frozenset("/⁄")  # behind the numerator of a fraction


def mark_superscripts(glyphs: Glyphs, text: str) -> tuple[str, dict[int, str]]:
    """The text of a page with superscripts, of the same length, and the numbers to be set apart, by position."""
    apart: dict[int, str] = {}
    return _SUPERSCRIPT.sub(lambda match: _superscript(glyphs, match, apart), text), apart


def is_superscript(letter: str) -> bool:
    """True if a character is a raised digit, sign or letter."""
    return letter in "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻" or letter in SUPERSCRIPT_LETTERS


def _superscript(glyphs: Glyphs, match: re.Match[str], apart: dict[int, str]) -> str:
    """A run of characters, with those that are raised against their neighbours as superscripts.

    A raised decimal stays as it is, and `apart` has its first character and what divides it from its base.
    """
    text, (start, end) = match.string, match.span()
    if not match["digits"] and start and text[start - 1].isalnum() and glyphs.same_height((start - 1, start)):
        return match[0]  # nearly every word
    while text[start] == " ":
        start += 1
    # Only a number may be a superscript without a base before it: it is compared with what follows.
    beside = [start - 1] if start > 0 and not _divides(text[start - 1]) else []
    if (match["digits"] or not beside) and (after := _after(text, start, end)) is not None:
        beside.append(after)
    if glyphs.same_height((start, end - 1, *beside)):
        touching = [at for at in (start - 1, end) if 0 <= at < len(text) and not _divides(text[at])]
        if not match["digits"] or text[end : end + 1] in _STROKES or not glyphs.floats(end - 1, touching):
            return match[0]
        letters = (raised(text[at]) if glyphs.floats(at, touching) else text[at] for at in range(start, end))
        return text[match.start() : start] + "".join(letters)
    run = {at: glyphs.at(at) for at in range(start, end)}
    level = max([*run.values(), *map(glyphs.at, beside)], key=lambda glyph: (glyph.size, -glyph.base))
    low, high = level.base + 0.1 * level.size, level.base + level.size

    def is_raised(glyph: Glyph) -> bool:
        return glyph.size < _SMALLER * level.size and low < glyph.base < high

    above = {at for at, mark in run.items() if is_raised(mark)}
    if not any(text[at].isalnum() for at in above):
        return match[0]
    first = min(above)
    if _DECIMAL.search(text, first, max(above) + 2):
        if text[first - 1 : first].isalnum():
            apart[first] = ("^" if text[first].isdigit() else " ") + text[first]
        return match[0]
    letters = (raised(text[at]) if at in above else text[at] for at in range(start, end))
    return text[match.start() : start] + "".join(letters)


def _divides(letter: str) -> bool:
    """True if what follows a character stands apart from it, or in the next line."""
    return letter.isspace() or letter == HYPHEN


def _after(text: str, start: int, end: int) -> int | None:
    """The position of the character that follows a run; at the beginning of a line after a space or line break."""
    while start > 0 and text[start - 1] == " ":
        start -= 1
    begins = start == 0 or text[start - 1] in ("\n", HYPHEN)
    while begins and end < len(text) and text[end] in " \n":
        end += 1
    return end if end < len(text) and not text[end].isspace() else None
