"""Raised characters of a PDFium text page as superscripts: exponents and the marks of notes."""

from __future__ import annotations

import re
from collections.abc import Iterator

from specextend_cli.documents.glyphs import Glyph, Glyphs
from specextend_cli.documents.line import SUPERSCRIPT_LETTERS

SMALLER = 0.85
"""Of the size of the type beside it: raised characters are smaller."""

MARK = r"\d{1,3}(?:[,–-]\d{1,3}){0,4}|[*†‡§]{1,3}"
"""The mark of a note, or those of several."""

_RAISED = str.maketrans("0123456789+-−–abcdefghijklmnoprstuvwxyz", f"⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻⁻{SUPERSCRIPT_LETTERS}")
_PLAIN = str.maketrans(f"⁰¹²³⁴⁵⁶⁷⁸⁹{SUPERSCRIPT_LETTERS}", "0123456789abcdefghijklmnoprstuvwxyz")
# What may be a superscript: digits with their sign, also those of several note marks (commas and dashes between them),
# and single small letters at the end of a word (not two, as in 1st) or alone at the beginning of a line.
_SUPERSCRIPT = re.compile(
    r"(?P<digits>[+\-−–]?\d{1,24}(?:[.,–-]\d{1,4}){0,6})|(?<=[^\W_])[a-z](?![\w’'])"
    r"|(?<=[.,;:)\]%”\"])[a-z](?![\w’'.)])|^[ ]*[a-z](?=\s|[A-Z])",
    re.MULTILINE,
)

_DECIMAL = re.compile(r"(?P<digits>[+\-−–]?\d+(?:\.\d+(?!\d)|(?=%)))")
_BASE = re.compile(r"(?<![\d.,])\d+$|(?<![^\W\d_])[^\W\d_]$")  # of a power: an integer or a letter, no price


def mark_superscripts(glyphs: Glyphs, text: str) -> tuple[str, dict[int, str]]:
    """The text of a page with superscripts, of the same length, and what is to be inserted at some positions."""
    inserted: dict[int, str] = {}
    return _SUPERSCRIPT.sub(lambda match: _superscript(glyphs, match, inserted), text), inserted


def raised(text: str) -> str:
    """The digits and letters of a text as superscripts."""
    return text.translate(_RAISED)


def plain(text: str) -> str:
    """A text without superscripts."""
    return text.translate(_PLAIN)


def is_superscript(letter: str) -> bool:
    """True if a character is a raised digit, sign or letter."""
    return letter in "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻" or letter in SUPERSCRIPT_LETTERS


def _superscript(glyphs: Glyphs, match: re.Match[str], inserted: dict[int, str]) -> str:
    """A run of characters, with those that are raised against their neighbours as superscripts.

    A raised decimal stays as it is, and `inserted` has what separates it from its base, by the position of its begin.
    """
    text, (start, end) = match.string, match.span()
    while text[start] == " ":
        start += 1
    # Only a number may be a superscript without a base before it: it is compared with what follows.
    beside = [start - 1] if start > 0 and not text[start - 1].isspace() else []
    if (match["digits"] or not beside) and (after := _after(text, start, end)) is not None:
        beside.append(after)
    if glyphs.same_height((start, end - 1, *beside)):
        return match[0]
    run = {at: glyphs.at(at) for at in range(start, end)}
    level = max([*run.values(), *map(glyphs.at, beside)], key=lambda glyph: (glyph.size, -glyph.base))
    low, high = level.base + 0.1 * level.size, level.base + level.size

    def is_raised(glyph: Glyph) -> bool:
        return glyph.size < SMALLER * level.size and low < glyph.base < high

    raised = {at for at, mark in run.items() if is_raised(mark)}
    if not any(text[at].isalnum() for at in raised):
        return match[0]
    for first, last in _decimals(text, raised):
        raised -= set(range(first, last))
        if first > 0 and text[first - 1].isalnum():
            inserted[first] = "^" if _BASE.search(text, max(first - 24, 0), first) and text[first].isdigit() else " "
    letters = (text[at].translate(_RAISED) if at in raised else text[at] for at in range(start, end))
    return text[match.start() : start] + "".join(letters)


def _decimals(text: str, raised: set[int]) -> Iterator[tuple[int, int]]:
    """The start and end of each raised number with a decimal point or a percent sign."""
    for at in sorted(raised):
        number = _DECIMAL.match(text, at) if at - 1 not in raised else None
        if number and raised.issuperset(range(at, number.end("digits"))):
            yield at, number.end("digits")


def _after(text: str, start: int, end: int) -> int | None:
    """The position of the character that follows a run; at the beginning of a line after a space or line break."""
    while start > 0 and text[start - 1] == " ":
        start -= 1
    begins = start == 0 or text[start - 1] == "\n"
    while begins and end < len(text) and text[end] in " \n":
        end += 1
    return end if end < len(text) and not text[end].isspace() else None
