"""Margins: remove line numbers, and put headings set in the margin above their text."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from specextend_cli.documents.document import Edit
from specextend_cli.documents.line import Line, Pages, Repaired, body_size, page_by_page, runs

_NUMBERED = re.compile(r"(\d{1,4})(?:\t\s*(?=\S)|$)")
_MIN_NUMBERS, _MAX_NUMBERS = 8, 200  # on a page
_NEAR = 3  # pages
_LARGER = 1.05  # times the body size: a heading
_CLOSE = 1.5  # sizes: line spacing within a paragraph
_MAX_LINES = 1_000  # on a page: with more it is a list


def line_numbers(pages: Pages) -> Repaired:
    """Remove numbers that count up down the left of prose at the same heights on several pages (pleadings, bills)."""
    found = [_longest(page) for page in pages]
    heights = [{round(line.base) for line in run} for run in found]
    edits: list[Edit] = []
    fixed: list[list[Line]] = []
    for place, (page, run) in enumerate(zip(pages, found, strict=True)):
        around = heights[max(place - _NEAR, 0) : place] + heights[place + 1 : place + _NEAR + 1]
        recur = any(len(heights[place] & other) >= 0.8 * len(run) for other in around)
        enough = _MIN_NUMBERS <= len(run) <= _MAX_NUMBERS and recur
        fixed.append(_without(page, run, edits) if enough and _beside_prose(page, run) else list(page))
    return fixed, edits


def _longest(page: Sequence[Line]) -> list[Line]:
    """The longest run of lines that begin with consecutive numbers."""

    def counts_up(run: list[Line], line: Line) -> bool:
        number, last = (int(numbered.text.split("\t")[0]) for numbered in (line, run[-1]))
        return abs(line.left - run[-1].left) < 2 * line.size and number == last + 1

    numbered = [line for line in page if line.size != 1 and _NUMBERED.match(line.text)]
    return max(runs(sorted(numbered, key=lambda line: -line.base), counts_up), key=len, default=[])


def _beside_prose(page: Sequence[Line], run: Sequence[Line]) -> bool:
    """Whether most numbers have text beside them that is no table row."""
    edge = max(line.left for line in run)
    bases = [line.base for line in page if line.left > edge and "\t" not in line.text]
    joined = sum(line.text.count("\t") == 1 for line in run)
    return joined + sum(any(abs(base - line.base) < line.size for base in bases) for line in run) >= 0.6 * len(run)


def _without(page: Sequence[Line], run: Sequence[Line], edits: list[Edit]) -> list[Line]:
    numbers = {id(line) for line in run}
    kept: list[Line] = []
    for line in page:
        if id(line) not in numbers:
            kept.append(line)
            continue
        number, _, rest = line.text.partition("\t")
        edits.append(Edit("line number", line.page, number))
        if rest:
            kept.append(line._replace(text=rest.strip(), left=line.right - len(rest) * line.em))
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
    """Whether `b` follows `a` in a paragraph."""
    return abs(a.left - b.left) < 2 and a.size == b.size and a.bold == b.bold and 0 < a.base - b.base < _CLOSE * b.size
