"""Margins: remove line numbers, and put headings set in the margin above their text."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from statistics import median

from specextend_cli.documents.document import Edit
from specextend_cli.documents.line import Line, Pages, Repaired, body_size, page_by_page, runs

# Also raised ones, which are smaller than the text beside them.
_NUMBERED = re.compile(r"(\d{1,4}|[⁰¹²³⁴-⁹]{1,4})(?:\s+(?=\S)|(?<=[⁰¹²³⁴-⁹])(?=\S)|$)")
_STEPS = (1, 2, 5, 10)  # from number to number
_MIN_NUMBERS, _MAX_NUMBERS = 8, 200  # on a page
_ALONE = 15  # numbers on a page that are enough without those of other pages
_MIN_SPARSE, _SPARSE_ALONE = 4, 6  # the same of numbers that stand beside every second, fifth or tenth line
_NEAR = 3  # pages
_EVEN = 0.1  # relative difference of the steps from number to number
_LONG = 20  # characters of the average line of text; the items of a list are shorter
_CELL = 12  # characters; the longest cell of a row of words may be shorter
_FIGURE = re.compile(r"[($€£¥+−–-]{0,3}\d[\d.,:/]*[)%]{0,2}")
_GOING_ON = 0.2  # of the lines of text begin in lower case, which the items of a list do not
_LARGER = 1.05  # times the body size: a heading
_CLOSE = 1.5  # sizes: line spacing within a paragraph
_MAX_LINES = 1_000  # on a page: with more it is a list


def line_numbers(pages: Pages) -> Repaired:
    """Remove numbers that count up down the left of prose at the same heights on several pages (pleadings, bills).

    One page is enough where they begin with 1, are many and evenly spaced.
    """
    found = [_longest(page) for page in pages]
    edits: list[Edit] = []
    fixed: list[list[Line]] = []
    for place, (page, run) in enumerate(zip(pages, found, strict=True)):
        near = found[max(place - _NEAR, 0) : place] + found[place + 1 : place + _NEAR + 1]
        recur = any(_at_the_heights(run, other) or _in_the_column(run, other) for other in near)
        enough = _least(run) <= len(run) <= _MAX_NUMBERS and (recur or _is_even(run))
        fixed.append(_without(page, run, edits) if enough and _beside_prose(page, run) else list(page))
    return fixed, edits


def _longest(page: Sequence[Line]) -> list[Line]:
    """The longest run of lines that begin with consecutive numbers, or with multiples of one number."""
    numbered = [line for line in page if line.size != 1 and _NUMBERED.match(line.text)]
    downward = sorted(numbered, key=lambda line: -line.base)

    def counting(step: int) -> list[Line]:
        def counts_up(run: list[Line], line: Line) -> bool:
            return abs(line.left - run[-1].left) < 2 * line.size and _number(line) == _number(run[-1]) + step

        multiples = [line for line in downward if _number(line) % step == 0]
        return max(runs(multiples, counts_up), key=len, default=[])

    return max(map(counting, _STEPS), key=len)


def _least(run: Sequence[Line]) -> int:
    """How many numbers are enough."""
    return _MIN_SPARSE if _is_sparse(run) else _MIN_NUMBERS


def _at_the_heights(run: Sequence[Line], other: Sequence[Line]) -> bool:
    """True if most numbers of two pages are at the same heights."""
    both = {round(line.base) for line in run} & {round(line.base) for line in other}
    return len(both) >= max(0.8 * min(len(run), len(other)), _least(run))


def _in_the_column(run: Sequence[Line], other: Sequence[Line]) -> bool:
    """True if sparse numbers of two pages, which are lines of their own, stand in one column of the margin."""
    if not (_is_sparse(run) and _is_sparse(other)):
        return False
    return all(not _text(line) and abs(line.right - other[-1].right) < line.size for line in run)


def _is_sparse(run: Sequence[Line]) -> bool:
    return len(run) > 1 and _number(run[1]) > _number(run[0]) + 1


def _number(line: Line) -> int:
    number = _NUMBERED.match(line.text)
    return int("".join(str(unicodedata.digit(digit)) for digit in number[1])) if number else 0


def _text(line: Line) -> str:
    """The text behind the number of a line."""
    return _NUMBERED.sub("", line.text, count=1).strip()


def _is_even(run: Sequence[Line]) -> bool:
    """True if many numbers from 1 are one below the other in equal steps."""
    steps = [a.base - b.base for a, b in pairwise(run)]
    usual = median(steps) if steps else 0.0
    even = sum(abs(step - usual) <= _EVEN * usual for step in steps)
    first, least = (_number(run[1]) - _number(run[0]), _SPARSE_ALONE) if _is_sparse(run) else (1, _ALONE)
    return len(run) >= least and _number(run[0]) == first and even >= 0.9 * len(steps)


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
        if id(line) not in numbers:
            kept.append(line)
            continue
        rest = _text(line)
        edits.append(Edit("line number", line.page, line.text[: len(line.text) - len(rest)].strip()))
        if rest:
            gaps = line.gaps[1:] if "\t" in line.text[: len(line.text) - len(rest)] else line.gaps
            kept.append(line._replace(text=rest, left=line.right - len(rest) * line.em, gaps=gaps))
    return kept


@page_by_page
def side_headings(page: Sequence[Line], edits: list[Edit]) -> list[Line]:
    """Move headings in the margin, which files often hold at the end of the page, above the text beside them."""
    side = _side_lines(page) if len(page) <= _MAX_LINES else []
    beside = {id(line) for line in side}
    body = [line for line in page if id(line) not in beside]
    if len(body) < 2 or not side:
        return list(page)
    downward = sorted(side, key=lambda line: -line.base)
    for group in runs(downward, lambda group, line: group[-1].base - line.base <= 1.6 * line.size):
        below = [line for line in body if line.base <= group[0].base + 0.6 * group[0].size]
        place = _start(body, body.index(max(below, key=lambda line: line.base)) if below else len(body))
        body[place:place] = group
    if body != list(page):
        edits += [Edit("side heading", line.page, line.text, line.text) for line in side]
    return body


def _side_lines(page: Sequence[Line]) -> list[Line]:
    """Lines in bold or large type that end left of the text."""
    lefts = Counter[float]()
    for line in page:
        lefts[round(line.left / 4) * 4.0] += len(line.text)
    if not lefts:
        return []
    margin, body = lefts.most_common(1)[0][0] - 2, body_size(page)
    beside = [line for line in page if line.right < margin]
    large = [line for line in beside if line.bold or line.size > _LARGER * body]
    headings = [line for line in large if sum(map(str.isalpha, line.text)) > 2]
    return headings if len(beside) - len(headings) < 4 else []  # with more text it is a column, not a margin


def _start(body: Sequence[Line], place: int) -> int:
    """The start of the paragraph whose second or third line is at `place`; else `place`."""
    first = place
    while 0 < first < len(body) and _continues(body[first - 1], body[first]):
        first -= 1
        if place - first > 2:
            return place
    return first


def _continues(a: Line, b: Line) -> bool:
    """True if `b` follows `a` in a paragraph."""
    return abs(a.left - b.left) < 2 and a.size == b.size and a.bold == b.bold and 0 < a.base - b.base < _CLOSE * b.size
