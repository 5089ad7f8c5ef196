"""Raised characters of a PDFium text page as superscripts: exponents and the marks of notes.

Marks that a page draws after the words behind them are put where they stand on the page.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from specextend_cli.documents.line import HYPHEN, SUPERSCRIPT_LETTERS, plain, raised
from specextend_cli.documents.pdf.glyphs import Glyph, GlyphLine, Glyphs

SMALLER = 0.85
"""Of the size of the type beside it: raised characters are smaller."""

MARK = r"\d{1,3}(?:[,–-]\d{1,3}){0,4}|[*†‡§]{1,3}"
"""The mark of a note, or those of several."""

# What may be a superscript: digits with their sign, also those of several note marks (commas and dashes between them),
# and single small letters at the end of a word (not two, as in 1st) or alone at the beginning of a line.
_SUPERSCRIPT = re.compile(
    r"(?P<digits>[+\-−–]?\d{1,24}(?:[.,–-]\d{1,4}){0,6})|(?<=[^\W_])[a-z](?![\w’'])"
    r"|(?<=[.,;:)\]%”\"])[a-z](?![\w’'.)])|^[ ]*[a-z](?=\s|[A-Z])",
    re.MULTILINE,
)

_DECIMAL = re.compile(r"(?P<digits>[+\-−–]?\d+(?:\.\d+(?!\d)|(?=%)))")
_BASE = re.compile(r"(?<![\d.,])\d+$|(?<![^\W\d_])[^\W\d_]$")  # of a power: an integer or a letter, no price

_STROKES = frozenset("/⁄")  # behind the numerator of a fraction

_MARKS = re.compile(rf"(?:{MARK})(?:\s+(?:{MARK})){{0,39}}")
_MAX_MARKS = 400  # on a page: with more it is a table or a diagram
_LONGEST = 1_000  # characters of a line of text
_LOW, _HIGH = 0.1, 0.7  # of the size of the line: how much higher a mark stands
_ROOM = 0.45  # sizes: how much a mark may overlap the letters beside it, whose widths may be a guess
_ROOM_IN_WORD = 0.1  # where it is between letters of a word
_BEHIND = 0.25  # sizes between a word and its mark
_LEFT_FREE = 1.2  # sizes: the widest gap between two words that was left for the mark in it
_BEFORE = 0.6  # sizes between the number of a note and its text
_WORD = re.compile(r"[^\W\d_]{2}")


def mark_superscripts(glyphs: Glyphs, text: str) -> tuple[str, dict[int, str]]:
    """The text of a page with superscripts, of the same length, and what is to be inserted at some positions."""
    inserted: dict[int, str] = {}
    return _SUPERSCRIPT.sub(lambda match: _superscript(glyphs, match, inserted), text), inserted


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
        return glyph.size < SMALLER * level.size and low < glyph.base < high

    above = {at for at, mark in run.items() if is_raised(mark)}
    if not any(text[at].isalnum() for at in above):
        return match[0]
    for first, last in _decimals(text, above):
        above -= set(range(first, last))
        if first > 0 and text[first - 1].isalnum():
            inserted[first] = "^" if _BASE.search(text, max(first - 24, 0), first) and text[first].isdigit() else " "
    letters = (raised(text[at]) if at in above else text[at] for at in range(start, end))
    return text[match.start() : start] + "".join(letters)


def _decimals(text: str, above: set[int]) -> Iterator[tuple[int, int]]:
    """The start and end of each raised number with a decimal point or a percent sign."""
    for at in sorted(above):
        number = _DECIMAL.match(text, at) if at - 1 not in above else None
        if number and above.issuperset(range(at, number.end("digits"))):
            yield at, number.end("digits")


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


@dataclass(slots=True)
class _Mark:
    """A mark in a line of nothing but marks."""

    line: GlyphLine
    text: str
    left: float
    right: float


def place_late_marks(lines: Sequence[GlyphLine]) -> list[GlyphLine]:
    """The lines of a page, in which raised marks that were lines of their own are superscripts in their lines."""
    small = {id(line): line for line in lines if _MARKS.fullmatch(plain(line.body))}
    if not 0 < sum(len(line.body.split()) for line in small.values()) <= _MAX_MARKS:
        return list(lines)
    hosts = sorted(
        (line for line in lines if len(line.body) <= _LONGEST and _WORD.search(line.body)), key=lambda line: line.base
    )
    bases = [line.base for line in hosts]
    largest = max((line.size for line in hosts), default=0.0)
    placed: set[int] = set()
    for line in sorted(small.values(), key=lambda line: -line.left):  # of several in one place, the last one first
        reach = _HIGH * largest
        near = hosts[bisect_left(bases, line.base - reach) : bisect_right(bases, line.base + reach)]
        marks = list(_marks(line))[::-1]
        places = [None if _is_fraction(mark, small.values()) else _place(near, mark) for mark in marks]
        if all(places):
            placed.add(id(line))
            for mark, (host, at) in zip(marks, filter(None, places), strict=True):
                letter = host.changed.get(max(at, 0), host.body[max(at, 0)])
                host.changed[max(at, 0)] = letter + raised(mark.text) if at >= 0 else raised(mark.text) + letter
                host.left = min(host.left, mark.left)
    return [line for line in lines if id(line) not in placed]


def _marks(line: GlyphLine) -> Iterator[_Mark]:
    for word in re.finditer(r"\S+", line.body):
        yield _Mark(line, plain(word[0]), line.spans[word.start()][0], line.spans[word.end() - 1][1])


def _is_fraction(mark: _Mark, lines: Iterable[GlyphLine]) -> bool:
    """True if another small number is below the mark."""
    return any(
        0 < mark.line.base - other.base < 1.5 * mark.line.size
        and min(mark.right, other.right) > max(mark.left, other.left)
        for other in lines
    )


def _place(hosts: Sequence[GlyphLine], mark: _Mark) -> tuple[GlyphLine, int] | None:
    """The line of a mark and the index of the last character before it; -1 for the number of a note."""
    beside = [host for host in hosts if _reaches(host, mark)]
    host = min(beside, key=lambda host: abs(host.base - mark.line.base), default=None)
    if host is None or not _fits(host, mark) or (at := _letter_before(host, mark)) is None:
        return None
    return host, at


def _reaches(host: GlyphLine, mark: _Mark) -> bool:
    """True if a mark is between the ends of a line, a little before it, or right behind it."""
    return host.left - _BEFORE * host.size < mark.right and mark.left < host.right + _BEHIND * host.size


def _fits(host: GlyphLine, mark: _Mark) -> bool:
    """True if a mark is smaller and higher than a line."""
    line = mark.line
    upright = host.head.turn == line.head.turn and not (host.head.slanted or line.head.slanted)
    return upright and _LOW * host.size < line.base - host.base < _HIGH * host.size and line.size < SMALLER * host.size


def _letter_before(host: GlyphLine, mark: _Mark) -> int | None:
    """The index of the last character before a mark; None where there is no room for the mark behind it."""
    middle = (mark.left + mark.right) / 2
    letters = [at for at, letter in enumerate(host.body) if not letter.isspace()]
    before = [at for at in letters if sum(host.spans[at]) / 2 < middle]
    behind = min((host.spans[at][0] for at in letters if sum(host.spans[at]) / 2 >= middle), default=mark.right)
    if not before:
        return -1 if mark.right < behind + _ROOM * host.size else None
    at = max(before, key=lambda at: host.spans[at][1])
    in_word = all(map(str.isalnum, host.body[at : at + 2])) and at + 1 < len(host.body)
    room = (_ROOM_IN_WORD if in_word else _ROOM) * host.size
    end = host.spans[at][1]
    near = -room < mark.left - end < _BEHIND * host.size
    in_gap = end < mark.left < mark.right < behind < end + _LEFT_FREE * host.size
    return at if in_gap or (near and mark.right < behind + room) else None
