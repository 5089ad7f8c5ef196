"""Headings in the margin go where they stand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from specextend_cli.documents.document import Edit
from specextend_cli.documents.line import Line
from specextend_cli.documents.repairs.repair import Pages, Repaired

_LARGER = 1.05  # times the size of the text: a heading
_CLOSE = 1.5  # sizes from line to line of a paragraph
_MOST = 1_000  # lines on a page: with more it is a list


def side_headings(pages: Pages) -> Repaired:
    """Headings set in the margin, which files often hold at the end of the page, go above the text they stand by."""
    edits: list[Edit] = []
    fixed = []
    for page in pages:
        side = _side_lines(page) if len(page) <= _MOST else []
        beside = {id(line) for line in side}
        body = [line for line in page if id(line) not in beside]
        if len(body) < 2 or not side:
            fixed.append(list(page))
            continue
        for group in _stacks(side):
            below = [line for line in body if line.base <= group[0].base + 0.6 * group[0].size]
            place = body.index(max(below, key=lambda line: line.base)) if below else len(body)
            place = _start(body, place)
            body[place:place] = group
        if body != list(page):
            edits += [Edit("side heading", line.page, line.text, line.text) for line in side]
        fixed.append(body)
    return fixed, edits


def _side_lines(page: Sequence[Line]) -> list[Line]:
    """Lines in bold or large type that end left of where most text begins."""
    lefts, sizes = Counter[float](), Counter[float]()
    for line in page:
        lefts[round(line.left / 4) * 4.0] += len(line.text)
        sizes[line.size] += len(line.text)
    if not lefts:
        return []
    margin, body = lefts.most_common(1)[0][0] - 2, sizes.most_common(1)[0][0]
    beside = [line for line in page if line.right < margin]
    headings = [
        line for line in beside if (line.bold or line.size > _LARGER * body) and sum(map(str.isalpha, line.text)) > 2
    ]
    return headings if len(beside) - len(headings) < 4 else []  # with more text it is a column, not a margin


def _start(body: Sequence[Line], place: int) -> int:
    """Where the paragraph begins that has the line at `place` as its second or third; else `place`."""
    first = place
    while 0 < first < len(body) and _goes_on(body[first - 1], body[first]):
        first -= 1
        if place - first > 2:
            return place
    return first


def _goes_on(a: Line, b: Line) -> bool:
    """Whether `b` follows `a` in one paragraph."""
    return abs(a.left - b.left) < 2 and a.size == b.size and a.bold == b.bold and 0 < a.base - b.base < _CLOSE * b.size


def _stacks(lines: Sequence[Line]) -> Iterable[list[Line]]:
    """Lines that stand closely one below the other, together."""
    stack: list[Line] = []
    for line in sorted(lines, key=lambda line: -line.base):
        if stack and stack[-1].base - line.base > 1.6 * line.size:
            yield stack
            stack = []
        stack.append(line)
    if stack:
        yield stack
