"""The gaps between the cells of a table, or between columns, in the lines of a PDFium text page: they become tabs.

PDFium writes one space there, as it does between words, or none where figures stand close.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from specextend_cli.documents.printed import Printed
from specextend_cli.documents.word_gaps import joints, word_spaces

_LOOSE = 0.54  # a line whose average character is wider than this part of its size has gaps in it
_LONG = 24  # characters in a line that may run over two columns
_SAMPLE = 12  # lines of a page
_ENOUGH = 3  # lines with gaps among them; rows of figures in columns
_WIDE = 1.5  # how much wider a gap must be in a line that is not loose
_LABEL = re.compile(r"\(?\w{1,6}[.)]|\d{1,2}(?:\.\d{1,2})*|\W")  # of a heading or a list item: its gap is no column
_FEW = 3  # spaces in a line that say nothing of how it is set
_FIGURE = re.compile(
    r"[($€£¥~≈±<>+−–-]{0,3}\d(?:[\d.,:/]*\d)?(?:[%)*†‡⁰¹²³⁴⁵⁶⁷⁸⁹ᵃᵇᶜᵈᵉᶠ]|[a-zA-Z](?![a-zA-Z])){0,3}|[—–-]|[nN]/?[aA]|\.{1,3}|\*{1,3}"
)
_SPACE, _WIDER = 0.4, 1.3  # a gap between figures that is wider than a space, in sizes and in spaces of its line
_JOINT = 0.03  # wider than other gaps of the line, in sizes: between two digits that may belong to two figures
_UNEVEN = 0.12  # difference of sizes within a line that may be two
_FAR = 1.5  # sizes between texts of two sizes that are no line
_WORD = re.compile(r"[^\W\d_]{3}")
_AROUND = 8  # rows up and down in which a gap may be seen again
_MOST = 100  # figures in a row
_NEAR = 2.5  # sizes from row to row


def find_cells(lines: Sequence[Printed]) -> None:
    """Mark the gaps in the lines of a page."""
    dense = []
    for line in lines:
        if line.right - line.left > _LOOSE * line.size * len(line.body) or _uneven(line):
            _mark(line, line.size)
        elif len(line.body) > _LONG:
            dense.append(line)
    _find_columns(lines, dense)
    _find_figures(lines)


def parts(line: Printed) -> list[tuple[int, int]]:
    """Where the texts begin and end in a line that stand far apart in type of different sizes.

    A number beside a text, as in a table of contents, stays on its line.
    """
    cuts = [0]
    places = [at for at, letter in enumerate(line.body) if letter == "\t"] if _uneven(line) else []
    for at, (left, right) in zip(places, line.gaps, strict=False):
        sizes = line.glyphs.at(line.first + at - 1).size, line.glyphs.at(line.first + at + 1).size
        texts = _WORD.search(line.body, cuts[-1], at) and _WORD.search(line.body, at)
        if texts and right - left > _FAR * line.size and abs(sizes[0] - sizes[1]) > _UNEVEN * max(sizes):
            cuts.append(at + 1)
    return [(start, end - 1) for start, end in pairwise([*cuts, len(line.body) + 1])]


def _uneven(line: Printed) -> bool:
    """Whether a line begins and ends in type of different sizes: it may be two lines that stand side by side."""
    return abs(line.head.size - line.tail.size) > _UNEVEN * line.size


def _find_columns(lines: Sequence[Printed], dense: Sequence[Printed]) -> None:
    """Mark the gaps in lines that run over two columns: a few lines tell whether it is worth asking all of them.

    `dense` are the lines whose width does not show a gap.
    """
    sample = dense[:: max(len(dense) // _SAMPLE, 1)]
    found = sum(bool(_wide_gaps(line, _WIDE * line.size)) for line in sample)
    if found + sum(bool(line.gaps) for line in lines) < _ENOUGH:
        return
    for line in dense:
        _mark(line, _WIDE * line.size)


def _mark(line: Printed, size: float) -> None:
    """Make tabs of the wide gaps of a line; `size` is that of its type, or more where a gap must be wider."""
    letters = list(line.body)
    for at, gap in _wide_gaps(line, size):
        letters[at] = "\t"
        line.gaps.append(gap)
    line.body = "".join(letters)


def _wide_gaps(line: Printed, size: float) -> list[tuple[int, tuple[float, float]]]:
    """The places of the wide gaps of a line, and their left and right ends."""
    body, glyphs, first = line.body, line.glyphs, line.first
    spaces = [match.start() for match in re.finditer(r"(?<=\S) (?=\S)", body)]
    found = [(glyphs.at(first + at - 1).right, glyphs.at(first + at + 1).left) for at in spaces]
    least = 0.9 * size
    if len(found) > _FEW and sum(body[at + 1].islower() for at in spaces) > 0.5 * len(spaces):
        # Prose that is set to both edges may have wide spaces, but all of them are.
        least = max(least, min(1.6 * median(right - left for left, right in found), 2 * size))
    return [
        (at, (left, right))
        for at, (left, right) in zip(spaces, found, strict=True)
        if right - left > least and not _LABEL.fullmatch(body, 0, at)
    ]


# ------------------------------------------------------------------------------------------------- close figures


@dataclass(frozen=True, slots=True)
class _Gap:
    """A gap in a row: of a wide one, or one between two lines, `line` is None."""

    left: float
    right: float
    line: Printed | None = None
    place: int = 0

    def shares(self, other: _Gap) -> bool:
        """Whether another one stands above or below it in part."""
        return min(self.right, other.right) > max(self.left, other.left)


def _find_figures(lines: Sequence[Printed]) -> None:
    """Mark the gaps before figures that stand one below the other in several rows, however narrow they are."""
    rows = [row for row in map(_row, _heights(lines)) if row[1]]
    sure = [[gap for gap in gaps if gap.line is None] for _, gaps in rows]
    left_over = []
    for at, (_, gaps) in enumerate(rows):
        for gap in gaps:
            if gap.line and 1 + _followed(rows, at, gap, -1) + _followed(rows, at, gap, 1) >= _ENOUGH:
                sure[at].append(gap)
                _divide(gap.line, gap)
            elif gap.line:
                left_over.append((at, gap))
    for at, gap in left_over:  # between rows that have no such cell
        around = sure[max(at - _AROUND, 0) : at] + sure[at + 1 : at + _AROUND + 1]
        seen = sum(any(map(gap.shares, row)) for row in around)
        if gap.line and seen >= _ENOUGH - 1 and (gap.line.gaps or _is_of_figures(gap.line)):
            _divide(gap.line, gap)


def _is_of_figures(line: Printed) -> bool:
    """Whether at least every second word is a figure."""
    words = line.body.split()
    return 2 * sum(_FIGURE.fullmatch(word) is not None for word in words) >= len(words)


def _heights(lines: Sequence[Printed]) -> Iterator[list[Printed]]:
    """The lines by the row in which they stand, from the top of the page, and from left to right."""
    row: list[Printed] = []
    for line in sorted(lines, key=lambda line: (line.head.turn, -line.base)):
        if row and not (row[0].head.turn == line.head.turn and row[0].base - line.base < 0.3 * line.size):
            yield sorted(row, key=lambda line: line.left)
            row = []
        row.append(line)
    if row:
        yield sorted(row, key=lambda line: line.left)


def _row(lines: Sequence[Printed]) -> tuple[Printed, list[_Gap]]:
    """A row's first line, and its gaps: wide ones, those between two lines, and those before figures."""
    gaps = [_Gap(*ends) for line in lines for ends in line.gaps]
    gaps += [_Gap(a.right, b.left) for a, b in pairwise(lines) if a.right < b.left]
    for line in lines:
        gaps += _before_figures(line)
    return lines[0], sorted(gaps, key=lambda gap: gap.left) if len(gaps) <= _MOST else []


def _before_figures(line: Printed) -> Iterator[_Gap]:
    """The gaps before figures that are wider than a space, and those before digits that may begin another figure."""
    words = list(re.finditer(r"\S+", line.body))
    figures = {match.start() for match in words if _FIGURE.fullmatch(match[0])}
    pairs = [b.start() for a, b in pairwise(words) if b.start() in figures and line.body[a.end() : b.start()] == " "]
    if pairs and line.size > 0:
        spaces = word_spaces(line.body, line.spans, line.size)
        usual = [gap for at, gap in spaces.items() if at + 1 not in pairs]
        least = max(_SPACE, _WIDER * median(usual)) if usual else _SPACE
        real = sum(not line.glyphs.generated(line.first + at) for at in spaces)
        for start in pairs:
            put = real and line.glyphs.generated(line.first + start - 1)
            if put or spaces[start - 1] > least:
                yield _Gap(line.spans[start - 2][1], line.spans[start][0], line, start - 1)
    for at in joints(line, _JOINT):
        if line.body[at].isdigit():
            yield _Gap(line.spans[at - 1][1], line.spans[at][0], line, at)


def _followed(rows: Sequence[tuple[Printed, list[_Gap]]], at: int, gap: _Gap, step: int) -> int:
    """How many of the next rows, up or down, have a gap in the same place; two are enough."""
    left, right, found = gap.left, gap.right, 0
    while found < 2 and 0 <= at + step < len(rows):
        here, there = rows[at][0], rows[at + step][0]
        if here.head.turn != there.head.turn or abs(here.base - there.base) > _NEAR * here.size:
            break
        shared = [
            (max(left, other.left), min(right, other.right))
            for other in rows[at + step][1]
            if other.shares(_Gap(left, right))
        ]
        if not shared:
            break
        left, right = max(shared, key=lambda ends: ends[1] - ends[0])
        found, at = found + 1, at + step
    return found


def _divide(line: Printed, gap: _Gap) -> None:
    """Put a tab in place of a space, or between two digits."""
    if line.body[gap.place] == " ":
        line.body = f"{line.body[: gap.place]}\t{line.body[gap.place + 1 :]}"
    else:
        line.changed[gap.place] = f"\t{line.body[gap.place]}"
    line.gaps = sorted([*line.gaps, (gap.left, gap.right)])
