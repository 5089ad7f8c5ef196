"""Put columns that are drawn row by row, blocks, side headings and list markers in the order of the page."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import combinations, pairwise
from math import inf
from typing import NamedTuple

from specextend_cli.documents.document import Edit
from specextend_cli.documents.line import Line, body_size, page_by_page, pieces, runs

_MAX_ROWS = 500  # on a page: with more it is no page of prose
_MAX_GAPS = 2_000  # on a page: each is compared with all lines
_ENOUGH = 5  # rows with text on both sides
_LOWER = 2.0  # sizes: how much lower the next line of the other column may be
_HIGHER = 0.6  # sizes: how much higher; the next cell of a table begins beside the first line of the one before
_GUTTER = 0.8  # its least width, in sizes
_CHARACTERS = 16  # in the average line of a column; table cells are shorter

_WORD = re.compile(r"[^\W\d_]{3}")  # numbers and letters in a diagram have no order
_MAX_LINES = 1_000  # on a page: with more it is a list
_MAX_BLOCKS = 250
_STEP = 2.2  # sizes: line spacing within a block
_ALIKE = 0.08  # difference of sizes within a block
_SHARED = 0.3  # of the width of the narrower of two blocks: least overlap in one column
_BLOCK = 100  # added to the characters of a block, so that few blocks move rather than short ones
_LARGER = 1.05  # times the body size: a heading
_MOVED = 0.4  # of the characters of a page: where more would move, it is not in columns

_MARKER = re.compile(r"[•●▪■□◦‣∙○➢✓▸–—*-]|[(\[]?(?:\d{1,3}|[a-zA-Z]|[ivxlcIVXLC]{2,6})[.)\]]")
_NEAR = 2.5  # sizes from a marker to its item
_LEVEL = 0.1  # sizes between their base lines
_MOST = 4  # lines at one height that are closely to the right of a marker


@page_by_page
def columns(page: Sequence[Line], edits: list[Edit]) -> list[Line]:
    """Read prose on both sides of a vertical gap over several rows one side after the other."""
    is_diagram = len(page) > _MAX_ROWS or sum(len(line.gaps) for line in page) > _MAX_GAPS
    return list(page) if is_diagram else _arranged(page, edits)


def _arranged(lines: Sequence[Line], edits: list[Edit]) -> list[Line]:
    """The lines in reading order, with those of columns split."""
    result: list[Line] = []
    at = 0
    while at < len(lines):
        beginning = pieces(lines[at])
        if at + 1 < len(lines) and _is_near(lines[at], lines[at + 1]):
            beginning = sorted([*beginning, *pieces(lines[at + 1])], key=lambda piece: piece.left)
        gaps = [(a.right, b.left) for a, b in pairwise(beginning)]
        end, gutter = max((_run(lines, at, gap) for gap in gaps), default=(at, 0.0))
        both = [piece for line in lines[at:end] for piece in pieces(line)]
        sides = [piece for piece in both if piece.left < gutter], [piece for piece in both if piece.left >= gutter]
        if end > at and all(map(_is_prose, sides)):
            edits.append(Edit("column", lines[at].page, lines[at].text, lines[at].text))
            result += (line for side in sides for line in _arranged(side, edits))
            at = end
        else:
            result.append(lines[at])
            at += 1
    return result


def _is_near(line: Line, other: Line) -> bool:
    """True if two lines that follow each other in the file are as near as lines of two columns may be."""
    return abs(line.base - other.base) <= _LOWER * line.size


def _run(lines: Sequence[Line], start: int, gap: tuple[float, float]) -> tuple[int, float]:
    """The end of the lines around the gutter that begins in `gap` near line `start`, and the middle of the gutter."""
    (low, high), size = gap, lines[start].size
    end, turns, middle = start, 0, 0.0
    sides: list[bool] = []  # of the pieces: whether they are on the left
    for at in range(start, len(lines)):
        line, last = lines[at], lines[max(at - 1, start)]
        parts = pieces(line)
        left = [piece for piece in parts if piece.left < (low + high) / 2]
        low = max([low, *(piece.right for piece in left)])
        high = min([high, *(piece.left for piece in parts if piece.left >= (low + high) / 2)])
        if high - low < _GUTTER * size:
            break
        # The file goes from one column to the other and back. But the next cell of a table begins beside the first
        # line of the one before.
        is_cell = sides[-2:-1] == sides[-1:] and line.base - last.base > _HIGHER * size
        found = [True] * bool(left) + [False] * (len(left) < len(parts))
        turned = len(found) - 1 + (sides[-1:] == [not found[0]] and _is_near(last, line) and not is_cell)
        sides += found
        far = abs(last.base - line.base) > 2 * size or abs(last.size - line.size) > 0.5
        turns += turned
        if turned or (end == at and not far):
            end, middle = at + 1, (low + high) / 2
    return (end, middle) if turns >= 2 * _ENOUGH - 1 else (start, 0.0)


def _is_prose(lines: Sequence[Line]) -> bool:
    """True if lines continue in the next line, which table cells do not."""
    going_on = sum(line.text[:1].isalpha() and not line.text[0].isupper() for line in lines[1:])
    return sum(len(line.text) for line in lines) >= _CHARACTERS * len(lines) and going_on >= 0.3 * (len(lines) - 1)


class _Block(NamedTuple):
    """Lines closely below each other, and their bounding box; one without words has no place of its own."""

    lines: list[Line]
    left: float
    right: float
    top: float
    foot: float

    @property
    def weight(self) -> int:
        """The number of its characters."""
        return sum(len(line.text) for line in self.lines)

    def is_above(self, other: _Block) -> bool:
        """True if it is above the other in the same column."""
        shared = min(self.right, other.right) - max(self.left, other.left)
        narrower = min(self.right - self.left, other.right - other.left)
        return self.foot >= other.top and shared > 0 and shared >= _SHARED * narrower


@page_by_page
def reading_order(page: Sequence[Line], edits: list[Edit]) -> list[Line]:
    """Move headings, captions and footers that a file holds elsewhere to their positions in their column.

    The fewest and shortest blocks are moved, each before the next one below it in its column, or behind the last one
    above it. The order of columns stays that of the file.
    """
    blocks = _blocks(page) if len(page) <= _MAX_LINES else []
    moved = _moved(blocks) if len(blocks) <= _MAX_BLOCKS else []
    weights = [block.weight for block in blocks]
    if not moved or sum(weights[at] for at in moved) > _MOVED * sum(weights):
        return list(page)
    order = [at for at in range(len(blocks)) if at not in moved]
    for at in sorted(moved, key=lambda at: -blocks[at].top):
        order.insert(_place(blocks, order, at), at)
    edits += [Edit("moved", line.page, line.text, line.text) for at in moved for line in blocks[at].lines]
    return [line for at in order for line in blocks[at].lines]


def _blocks(page: Sequence[Line]) -> list[_Block]:
    """The blocks of a page in the order of the file; turned lines stay with the block before."""

    def is_level(line: Line) -> bool:
        return line.size != 1 and not line.slanted and line.turn == page[0].turn

    def continues(block: list[Line], line: Line) -> bool:
        last = next(filter(is_level, reversed(block)), None)
        if last is None or not is_level(line):
            return not is_level(line)
        alike = abs(last.size - line.size) <= _ALIKE * line.size and last.bold == line.bold
        near = 0 < last.base - line.base <= _STEP * line.size
        return alike and near and min(last.right, line.right) > max(last.left, line.left)

    blocks = []
    for lines in runs(page, continues):
        level = list(filter(is_level, lines))
        left, right = min((line.left for line in level), default=inf), max((line.right for line in level), default=-inf)
        top = max((line.base + 0.7 * line.size for line in level), default=-inf)
        foot = min((line.base for line in level), default=inf)
        blocks.append(_Block(lines, left, right, top, foot))
    return blocks


def _moved(blocks: Sequence[_Block]) -> list[int]:
    """The blocks to be moved: without them, no block precedes one above it in its column."""
    against: defaultdict[int, set[int]] = defaultdict(set)
    worded = [at for at, block in enumerate(blocks) if any(_WORD.search(line.text) for line in block.lines)]
    for at, other in combinations(worded, 2):
        if blocks[other].is_above(blocks[at]):
            against[at].add(other)
            against[other].add(at)
    weights = [_BLOCK + block.weight for block in blocks]
    conflict = {at: sum(weights[other] for other in others) for at, others in against.items()}
    moved = []
    while conflict:
        worst = max(conflict, key=lambda at: conflict[at] / weights[at])
        moved.append(worst)
        del conflict[worst]
        for other in against.pop(worst):
            against[other].discard(worst)
            conflict[other] -= weights[worst]
            if not against[other]:
                del against[other], conflict[other]
    return sorted(moved)


def _place(blocks: Sequence[_Block], order: Sequence[int], at: int) -> int:
    """The index in `order` at which a block is inserted."""
    below = [place for place, other in enumerate(order) if blocks[at].is_above(blocks[other])]
    above = [place for place, other in enumerate(order) if blocks[other].is_above(blocks[at])]
    nearest = min(below, key=lambda place: blocks[at].foot - blocks[order[place]].top, default=None)
    if nearest is not None and (not above or nearest > max(above)):
        return nearest
    return max(above) + 1 if above else bisect_left(order, at)


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
        place = body.index(max(below, key=lambda line: line.base)) if below else len(body)
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


@page_by_page
def list_markers(page: Sequence[Line], edits: list[Edit]) -> list[Line]:
    """Move each marker that is a line of its own before the line closely to the right of it.

    WeasyPrint draws all markers of a list after its text, so that in the order of the file they follow the page.
    """
    markers = [at for at, line in enumerate(page) if _MARKER.fullmatch(line.text)]
    if not markers:
        return list(page)
    rows = defaultdict[int, list[int]](list)  # the places of the other lines by their height, from left to right
    for at in sorted(set(range(len(page))).difference(markers), key=lambda at: page[at].left):
        for height in range(-1, 2):
            rows[round(page[at].base) + height].append(at)
    moved: dict[int, int] = {}  # from the place of a line to that of its marker
    for at in markers:
        marker, row = page[at], rows[round(page[at].base)]
        first = bisect_right(row, marker.right, key=lambda place: page[place].left)
        item = next((place for place in row[first : first + _MOST] if _is_beside(marker, page[place])), at + 1)
        if item != at + 1 and item not in moved:
            moved[item] = at
            edits.append(Edit("list marker", marker.page, marker.text, f"{marker.text} {page[item].text}"))
    rest = set(range(len(page))).difference(moved.values())
    return [page[place] for at in sorted(rest) for place in ((moved[at], at) if at in moved else (at,))]


def _is_beside(marker: Line, line: Line) -> bool:
    level = abs(marker.base - line.base) < _LEVEL * marker.size and marker.turn == line.turn
    return level and line.left - marker.right < _NEAR * marker.size
