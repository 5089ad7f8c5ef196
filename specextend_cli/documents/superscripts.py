"""Raised digits and letters of a PDF page become superscript characters: 10⁶, m², the marks of notes."""

from __future__ import annotations

import re

from specextend_cli.documents.glyphs import Glyph, Glyphs
from specextend_cli.documents.line import SUPERSCRIPT_LETTERS

_RAISED = str.maketrans("0123456789+-−–abcdefghijklmnoprstuvwxyz", f"⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻⁻{SUPERSCRIPT_LETTERS}")
# Digits, and single small letters: at the end of a word (those of an ordinal, as in 1st, are several) or alone at the
# beginning of a line. A sign counts where it is raised with its digits; commas and dashes stand between the marks of
# several notes. No more digits than a number or the marks of some notes have.
_RUN = re.compile(
    r"(?P<digits>[+\-−–]?\d{1,24}(?:[,–-]\d{1,4}){0,6})|(?<=[^\W_])[a-z](?![\w’'])"
    r"|(?<=[.,;:)\]%”\"])[a-z](?![\w’'.)])|^[ ]*[a-z](?=\s|[A-Z])",
    re.MULTILINE,
)


def superscripts(glyphs: Glyphs, text: str) -> str:
    """The text of a page with its raised characters as superscript ones, each at its place."""
    return _RUN.sub(lambda match: _translated(glyphs, text, match), text)


def is_superscript(letter: str) -> bool:
    """Whether a character is one of those that `superscripts` puts."""
    return letter in "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻" or letter in SUPERSCRIPT_LETTERS


def _translated(glyphs: Glyphs, text: str, match: re.Match[str]) -> str:
    """A run of characters, those of them that are raised against what stands beside them as superscripts."""
    start, end = match.span()
    while text[start] == " ":
        start += 1
    # Only a number may be all that is raised of a word, or of a line: there it is measured by what follows.
    before, after = _before(text, start), _after(text, start, end)
    places = (before,) if before is not None and not match["digits"] else (before, after)
    beside = [at for at in places if at is not None]
    if glyphs.alike((start, end - 1, *beside)):
        return match[0]
    run = {at: glyphs.at(at) for at in range(start, end)}
    level = max([*run.values(), *map(glyphs.at, beside)], key=lambda glyph: (glyph.size, -glyph.base))
    raised = {at for at, glyph in run.items() if _raised(glyph, level)}
    if not any(text[at].isalnum() for at in raised):
        return match[0]
    letters = (text[at].translate(_RAISED) if at in raised else text[at] for at in range(start, end))
    return text[match.start() : start] + "".join(letters)


def _before(text: str, start: int) -> int | None:
    """The place of the character that a run follows directly."""
    return start - 1 if start > 0 and not text[start - 1].isspace() else None


def _after(text: str, start: int, end: int) -> int | None:
    """The place of the character that follows a run.

    Behind one at the beginning of a line a space may follow, and the next line where it is all of its own.
    """
    while start > 0 and text[start - 1] == " ":
        start -= 1
    begins = start == 0 or text[start - 1] == "\n"
    while begins and end < len(text) and text[end] in " \n":
        end += 1
    return end if end < len(text) and not text[end].isspace() else None


def _raised(mark: Glyph, beside: Glyph) -> bool:
    return mark.size < 0.85 * beside.size and beside.base + 0.1 * beside.size < mark.base < beside.base + beside.size
