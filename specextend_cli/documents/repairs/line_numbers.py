"""Remove the line numbers of bills, pleadings and transcripts."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from itertools import pairwise
from statistics import median

from specextend_cli.documents.document import Edit
from specextend_cli.documents.line import Line, Pages, Repaired, runs

# Also raised ones, which are smaller than the text beside them.
_NUMBERED = re.compile(r"(\d{1,4}|[⁰¹²³⁴-⁹]{1,4})(?:\s+(?=\S)|(?<=[⁰¹²³⁴-⁹])(?=\S)|$)")
_LEAST, _MOST = 8, 200  # numbers on a page
_ALONE = 15  # numbers on a page that are enough without those of other pages
_NEAR = 3  # pages
_EVEN = 0.1  # relative difference of the steps from number to number
_LONG = 20  # characters of the average line of text; the items of a list are shorter
_CELL = 12  # characters; the longest cell of a row of words may be shorter
_FIGURE = re.compile(r"[($€£¥+−–-]{0,3}\d[\d.,:/]*[)%]{0,2}")
_GOING_ON = 0.2  # of the lines of text begin in lower case, which the items of a list do not


def line_numbers(pages: Pages) -> Repaired:
    """Remove numbers that count up down the left of prose at the same heights on several pages.

    One page is enough where they begin with 1, are many and evenly spaced.
    """
    found = [_longest(page) for page in pages]
    edits: list[Edit] = []
    fixed: list[list[Line]] = []
    for place, (page, run) in enumerate(zip(pages, found, strict=True)):
        near = found[max(place - _NEAR, 0) : place] + found[place + 1 : place + _NEAR + 1]
        recur = _is_even(run) or any(_at_the_heights(run, other) for other in near)
        is_removed = _LEAST <= len(run) <= _MOST and recur and _beside_prose(page, run)
        fixed.append(_without(page, run, edits) if is_removed else list(page))
    return fixed, edits


def _longest(page: Sequence[Line]) -> list[Line]:
    """The longest run of lines that begin with consecutive numbers."""
    numbered = [line for line in page if line.size != 1 and _NUMBERED.match(line.text)]
    downward = sorted(numbered, key=lambda line: -line.base)

    def counts_up(run: list[Line], line: Line) -> bool:
        return abs(line.left - run[-1].left) < 2 * line.size and _number(line) == _number(run[-1]) + 1

    return max(runs(downward, counts_up), key=len, default=[])


def _number(line: Line) -> int:
    number = _NUMBERED.match(line.text)
    return int("".join(str(unicodedata.digit(digit)) for digit in number[1])) if number else 0


def _text(line: Line) -> str:
    """The text behind the number of a line."""
    return _NUMBERED.sub("", line.text, count=1).strip()


def _at_the_heights(run: Sequence[Line], other: Sequence[Line]) -> bool:
    """True if most numbers of two pages are at the same heights."""
    both = {round(line.base) for line in run} & {round(line.base) for line in other}
    return len(both) >= max(0.8 * min(len(run), len(other)), _LEAST)


def _is_even(run: Sequence[Line]) -> bool:
    """True if many numbers from 1 are one below the other in equal steps."""
    steps = [a.base - b.base for a, b in pairwise(run)]
    usual = median(steps) if steps else 0.0
    even = sum(abs(step - usual) <= _EVEN * usual for step in steps)
    return len(run) >= _ALONE and _number(run[0]) == 1 and even >= 0.9 * len(steps)


def _beside_prose(page: Sequence[Line], run: Sequence[Line]) -> bool:
    """True if most numbers have text beside them that is no table row, and that goes on from line to line."""
    edge = max(line.left for line in run)
    numbers = set(map(id, run))
    others = [line for line in page if line.left > edge and id(line) not in numbers and not _is_row(line.text)]
    texts = [text for line in run if (text := _text(line)) and not _is_row(text)]
    for line in run:
        texts += [other.text for other in others if not _text(line) and abs(other.base - line.base) < line.size][:1]
    prose = sum(map(len, texts)) >= _LONG * len(texts)
    going_on = sum(text[:1].islower() for text in texts) >= _GOING_ON * len(texts)
    return len(texts) >= 0.6 * len(run) and prose and going_on


def _is_row(text: str) -> bool:
    """True if a text is a row of a table: it has figures, or nothing but short cells. "Q." has a wide gap after it."""
    cells = text.split("\t")
    return len(cells) > 1 and (max(map(len, cells)) < _CELL or any(map(_FIGURE.fullmatch, cells)))


def _without(page: Sequence[Line], run: Sequence[Line], edits: list[Edit]) -> list[Line]:
    numbers = {id(line) for line in run}
    kept: list[Line] = []
    for line in page:
        rest = _text(line) if id(line) in numbers else line.text
        number = line.text[: len(line.text) - len(rest)]
        if id(line) in numbers:
            edits.append(Edit("line number", line.page, number.strip()))
            line = line._replace(text=rest, left=line.right - len(rest) * line.em, gaps=line.gaps["\t" in number :])
        if rest:
            kept.append(line)
    return kept
