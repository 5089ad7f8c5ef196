"""Gaps in the lines of a PDFium text page: those between table cells, or columns, become tabs; missing spaces are put.

PDFium writes one space between cells, as between words, and none where words are set tight.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from statistics import median

from specextend_cli.documents.pdf.glyphs import GlyphLine, Repair

_LOOSE = 0.54  # in sizes: a line with wider average characters has gaps in it
_SAMPLE = 12  # lines of a page
_ENOUGH = 3  # lines of the sample with gaps
_WIDE = 1.5  # times as wide a gap must be in other lines
_LABEL = re.compile(r"\(?\w{1,6}[.)]|\d{1,2}(?:\.\d{1,2})*|\W")  # its gap separates no columns
_FEW = 3  # spaces: with fewer a line is too short to tell whether it is justified
_UNEVEN = 0.12  # relative difference of sizes within a line that may be two
_FAR = 1.5  # sizes: least gap between two lines that were joined
_WORD = re.compile(r"[^\W\d_]{3}")
_TIGHT = 0.2  # sizes: narrower are the spaces of a line with words so near to each other that PDFium misses some
_SAME = 0.5  # of the median space of a line: a narrower gap is none
_CLEAR = 0.5  # of the narrowest gap between words: how much narrower the widest gap within words must be
_APART = 0.1  # sizes: how much wider than others a gap between two figures is
_SPACE = re.compile(r"(?<=\S) (?=\S)")
_DIGITS = re.compile(r"(?<=\d)(?=\d)")


def find_cells(lines: Sequence[GlyphLine]) -> None:
    """Put tabs in the gaps of the lines of a page."""
    dense = []  # lines that may span two columns: their width does not indicate a gap
    for line in lines:
        if line.right - line.left > _LOOSE * line.size * len(line.body) or _uneven(line):
            _mark(line, line.size)
        else:
            dense.append(line)
    sample = dense[:: max(len(dense) // _SAMPLE, 1)]  # tells whether they are worth it
    found = sum(bool(_wide_gaps(line, _WIDE * line.size)) for line in sample)
    if found + sum(bool(line.gaps) for line in lines) >= _ENOUGH:
        for line in dense:
            _mark(line, _WIDE * line.size)


def parts(line: GlyphLine) -> list[tuple[int, int]]:
    """The start and end of each text of a line whose texts are far apart and of different sizes.

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


def _uneven(line: GlyphLine) -> bool:
    """True if a line begins and ends in different sizes: it may be two adjacent lines."""
    return abs(line.head.size - line.tail.size) > _UNEVEN * line.size


def _mark(line: GlyphLine, size: float) -> None:
    """Replace the wide gaps of a line by tabs; `size` is its type size, or larger where gaps must be wider."""
    letters = list(line.body)
    for at, gap in _wide_gaps(line, size):
        letters[at] = "\t"
        line.gaps.append(gap)
    line.body = "".join(letters)


def _wide_gaps(line: GlyphLine, size: float) -> list[tuple[int, tuple[float, float]]]:
    """The index of each wide gap of a line, and its left and right end."""
    body, least = line.body, 0.9 * size
    found = [(at, gap) for at, gap in _gaps(line) if not _LABEL.fullmatch(body, 0, at)]
    if len(found) >= _FEW and sum(body[at + 1].islower() for at, _ in found) > 0.5 * len(found):
        # In justified prose all spaces may be wide.
        least = max(least, min(1.6 * median(right - left for _, (left, right) in found), 2 * size))
    return [(at, (left, right)) for at, (left, right) in found if right - left > least]


def _gaps(line: GlyphLine) -> list[tuple[int, tuple[float, float]]]:
    """The index of each single space of a line, and the end of the character before it and the left end of the next."""
    span, first, turn = line.glyphs.span, line.first, line.head.turn
    spaces = [match.start() for match in _SPACE.finditer(line.body)]
    return [(at, (round(span(first + at - 1, turn)[1], 2), round(span(first + at + 1, turn)[0], 2))) for at in spaces]


def put_spaces(lines: Sequence[GlyphLine]) -> list[Repair]:
    """Insert missing spaces in lines, between words that are set tight and between figures; the repairs."""
    repairs: list[Repair] = []
    for line in lines:
        if missing := (_between_words(line) | _between_figures(line)) - line.changed.keys():
            before, line.changed = line.text, line.changed | {at: f" {line.body[at]}" for at in missing}
            repairs.append(("space put", before, line.text))
    return repairs


def _between_words(line: GlyphLine) -> set[int]:
    """The positions before which a space is missing in a line whose spaces are PDFium's own, and narrow ones.

    Gaps between words are clearly wider than those within words, and as wide as the spaces that the line has. Where the
    widths of gaps do not fall into two groups, none is found.
    """
    at = line.body.find(" ")
    if at < 0 or not line.glyphs.generated(line.first + at):
        return set()
    usual = median((right - left) / line.size for _, (left, right) in _gaps(line)) if line.size > 0 else _TIGHT
    if usual >= _TIGHT:
        return set()
    gaps = _inner_gaps(line)
    steps = [(wide - narrow, wide) for narrow, wide in pairwise(sorted(gaps.values())) if wide > _SAME * usual]
    step, narrowest = max(steps, default=(0.0, 0.0))
    return {at for at, gap in gaps.items() if gap >= narrowest} if 0 < _CLEAR * narrowest <= step else set()


def _between_figures(line: GlyphLine) -> set[int]:
    """The positions between digits with a wider gap than usual, and than those beside it: a number may be spaced."""
    places = [match.start() for match in _DIGITS.finditer(line.body)]
    if not any(line.spans[at][0] - line.spans[at - 1][1] > _APART * line.size for at in places):
        return set()
    gaps = _inner_gaps(line)
    usual = median(gaps.values())
    return {at for at in places if gaps[at] > _APART + max(usual, gaps.get(at - 1, 0.0), gaps.get(at + 1, 0.0))}


def _inner_gaps(line: GlyphLine) -> dict[int, float]:
    """The gap before each character by its index, in sizes, where neither it nor the one before is a space."""
    return {
        at: (line.spans[at][0] - line.spans[at - 1][1]) / line.size
        for at in range(1, len(line.body))
        if not (line.body[at - 1].isspace() or line.body[at].isspace())
    }
