"""Read once what a page draws twice with a tiny offset (bold type of old drivers): letters, words or lines."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from specextend_cli.documents.line import runs
from specextend_cli.documents.pdf.glyphs import GlyphLine, Repair

_SHIFT = 0.15  # sizes: a letter and its copy are that near to each other
_OF_WIDTH = 0.6  # and nearer than a part of the width of the letter: a real double letter is one width further
_LEVEL = 0.15  # sizes between the base lines of a line and its copy
_MOST = 8  # lines at one place that are compared
_REPEATED = re.compile(r"(\S)\1+")

KIND = "double strike"


def drop_doubled_letters(line: GlyphLine) -> Repair | None:
    """Drop letters that are drawn twice in a row; the repair."""
    copies: dict[int, str] = {}
    for match in _REPEATED.finditer(line.body):
        kept = line.glyphs.span(line.first + match.start(), line.head.turn)
        for at in range(match.start() + 1, match.end()):
            span = line.glyphs.span(line.first + at, line.head.turn)
            if _is_copy(kept, span, line.size) and _is_beside(line, at):
                copies[at] = ""
            else:
                kept = span
    if not copies:
        return None
    before, line.changed = line.text, line.changed | copies
    return KIND, before, line.text


def _is_copy(letter: tuple[float, float], other: tuple[float, float], size: float) -> bool:
    width, shift = letter[1] - letter[0], abs(other[0] - letter[0])
    return width > 0 and shift < min(_SHIFT * size, _OF_WIDTH * width)


def _is_beside(line: GlyphLine, at: int) -> bool:
    """True if a letter is near the one before it: below it in vertical writing, at the same place in a ligature."""
    (x, y), (left, low) = (line.glyphs.at(line.first + place).center for place in (at - 1, at))
    return 0 < max(abs(x - left), abs(y - low)) < 2 * _SHIFT * line.size


def doubled_words(lines: Sequence[GlyphLine]) -> Iterator[tuple[GlyphLine, int]]:
    """Lines that begin with words that lie on the same words of earlier lines, each with the end of these words.

    The end is the length of the body where all of the line is a copy.
    """
    maps: dict[int, dict[int, str]] = {}  # the letters of a line by their places, by its id
    level = sorted(lines, key=lambda line: (line.head.turn, line.base))
    for row in runs(level, lambda row, line: _is_level(row[-1], line)):
        row.sort(key=lambda line: line.left)
        for at, line in enumerate(row):
            # Lines of one row do not overlap, unless one is drawn on the other.
            over = [other for other in row[max(at - _MOST, 0) : at + _MOST + 1] if _is_over(line, other)]
            for other in over:
                if id(other) not in maps:
                    maps[id(other)] = _letters(other)
            if over and (end := max(_copied(line, maps[id(other)], _grid(other)) for other in over)):
                yield line, end


def _is_level(a: GlyphLine, b: GlyphLine) -> bool:
    return a.head.turn == b.head.turn and abs(a.base - b.base) < _LEVEL * max(a.size, b.size)


def _is_over(line: GlyphLine, other: GlyphLine) -> bool:
    """True if a line is drawn on an earlier one."""
    return other.first < line.first and min(line.right, other.right) - max(line.left, other.left) > _SHIFT * line.size


def _letters(line: GlyphLine) -> dict[int, str]:
    return {round(left / _grid(line)): letter for (left, _), letter in zip(line.spans, line.body, strict=True)}


def _copied(line: GlyphLine, letters: dict[int, str], grid: float) -> int:
    """The end of the words with which a line begins and that another line has at the same places; 0 without any."""
    end = 0
    for word in re.finditer(r"\S+", line.body):
        for at in range(*word.span()):
            place = round(line.spans[at][0] / grid)
            if line.body[at] not in (letters.get(place - 1), letters.get(place), letters.get(place + 1)):
                return end
        end = word.end()
    return len(line.body)


def _grid(line: GlyphLine) -> float:
    return max(_SHIFT * line.size, 0.01)
