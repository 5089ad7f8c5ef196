"""Gaps in the lines of a PDFium text page: those between table cells, or columns, become tabs; missing spaces are put.

PDFium writes one space between cells, as between words, and none where words are set tight.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from statistics import median

from specextend_cli.documents.pdf.glyphs import GlyphLine, Repair

_LOOSE = 0.54  # in sizes: a line with wider average characters has gaps in it
_LONG = 24  # characters of a line that may span two columns
_SAMPLE = 12  # lines of a page
_ENOUGH = 3  # lines of the sample with gaps, or of a column
_WIDE = 1.5  # times as wide a gap must be in other lines
_LABEL = re.compile(r"(?:\(?\w{1,6}[.)]|\d{1,2}(?:\.\d{1,2})*)(?= \W?(?:\d+ )?[^\W\d_](?!\)))|\W(?= )")
_NEAR = 8  # sizes: widest gap between a label and its text, which separates no columns
_EQUAL = 0.05  # sizes between the widths of the spaces of a justified line, by kerning
_FEW = 3  # spaces: with fewer a line is too short to tell whether it is justified
_UNEVEN = 0.12  # relative difference of sizes within a line that may be two
_FAR = 1.5  # sizes: least gap between two lines that were joined
_WORD = re.compile(r"[^\W\d_]{3}")
_TIGHT = 0.2  # sizes: narrower are the spaces of a line with words so near to each other that PDFium misses some
_SAME = 0.5  # of the median space of a line: a narrower gap is none
_CLEAR = 0.5  # of the narrowest gap between words: how much narrower the widest gap within words must be
_APART = 0.1  # sizes: how much wider than others a missing space is
_SPACE = re.compile(r"(?<=\S) (?=\S)")
_FIGURES = re.compile(r"(?:(?<=\S)[ \t](?:\.|[$€£]?\d(?:[\d.,]*\d)?%?))+$|(?<=[^\W\d_])(?=\d{1,4}$)")
_FIGURE_SPACE, _WIDER = 0.4, 1.3  # least gap before a figure, in sizes and in spaces of its line
_KERNED = 0.03  # sizes: additional width of a gap between a letter and a figure
_NEARLY_ALL = 0.8  # of the lines of a column
_JOINT = re.compile(r"(?=\d\d|\d[^\W\d_]|[^\W\d_]\d|[a-zà-öø-ÿ][A-ZÀ-ÖØ-Þ])")

_Gap = tuple[int, tuple[float, float]]
"""The index of a space in a line, and the ends of the characters before and behind it."""


def find_cells(lines: Sequence[GlyphLine]) -> None:
    """Put tabs in the gaps of the lines of a page."""
    dense = []  # lines that may span two columns: their width does not indicate a gap
    for line in lines:
        if line.right - line.left > _LOOSE * line.size * len(line.body) or _uneven(line):
            _mark(line, _wide_gaps(line, line.size))
        elif len(line.body) > _LONG:
            dense.append(line)
    sample = dense[:: max(len(dense) // _SAMPLE, 1)]  # tells whether they are worth it
    found = sum(bool(_wide_gaps(line, _WIDE * line.size)) for line in sample)
    if found + sum(bool(line.gaps) for line in lines) >= _ENOUGH:
        for line in dense:
            _mark(line, _wide_gaps(line, _WIDE * line.size))
    _mark_figures(lines)


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


def _mark(line: GlyphLine, gaps: Sequence[_Gap]) -> None:
    """Replace gaps of a line by tabs."""
    letters = list(line.body)
    for at, gap in gaps:
        letters[at] = "\t"
        line.gaps.append(gap)
    line.body, line.gaps = "".join(letters), sorted(line.gaps)


def _mark_figures(lines: Sequence[GlyphLine]) -> None:
    """Replace the wider spaces before figures at the ends of lines by tabs, in a column whose lines nearly all end so.

    These are page numbers in a table of contents, or the cells of a table.
    """
    columns = defaultdict[tuple[int, int], list[GlyphLine]](list)
    for line in lines:
        columns[line.head.turn, round(line.right)].append(line)
    for column in columns.values():
        ends = [_FIGURES.search(line.body) for line in column]
        if sum(map(bool, ends)) < max(_ENOUGH, _NEARLY_ALL * len(column)):
            continue
        for line, start in ((line, end.start()) for line, end in zip(column, ends, strict=True) if end):
            spaces = _gaps(line)
            usual = median([right - left for at, (left, right) in spaces if at < start] or [0])
            least = max(_FIGURE_SPACE * line.size, _WIDER * usual)
            _mark(line, [(at, (left, right)) for at, (left, right) in spaces if at >= start and right - left > least])
            if line.body[start].isdigit() and start in _joints(line, _KERNED):
                line.changed[start] = f"\t{line.body[start]}"
                line.gaps.append((line.spans[start - 1][1], line.spans[start][0]))


def _wide_gaps(line: GlyphLine, size: float) -> list[_Gap]:
    """The wide gaps of a line; `size` is its type size, or larger where gaps must be wider."""
    body, least = line.body, 0.9 * size
    label = match.end() if (match := _LABEL.match(body)) else 0
    found = [(at, gap) for at, gap in _gaps(line) if at != label or gap[1] - gap[0] > _NEAR * line.size]
    widths = [right - left for _, (left, right) in found]
    words = "".join(body[at + 1] for at, _ in found)
    is_prose = len(found) >= _FEW and words.isalpha() and any(map(str.islower, words))
    if is_prose and max(widths) - min(widths) < _EQUAL * line.size:
        return []  # in justified prose all spaces may be wide
    if len(found) > _FEW and sum(map(str.islower, words)) > 0.5 * len(found):
        least = max(least, min(1.6 * median(widths), 2 * size))
    return [(at, (left, right)) for at, (left, right) in found if right - left > least]


def _gaps(line: GlyphLine) -> list[_Gap]:
    """The single spaces of a line."""
    span, first, turn = line.glyphs.span, line.first, line.head.turn
    spaces = [match.start() for match in _SPACE.finditer(line.body)]
    return [(at, (round(span(first + at - 1, turn)[1], 2), round(span(first + at + 1, turn)[0], 2))) for at in spaces]


def put_spaces(lines: Sequence[GlyphLine]) -> list[Repair]:
    """Insert missing spaces in lines, between words that are set tight and beside figures; the repairs."""
    repairs: list[Repair] = []
    for line in lines:
        if missing := (_between_words(line) | _joints(line, _APART)) - line.changed.keys():
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
    spaces = [(right - left) / line.size for _, (left, right) in _gaps(line) if line.size > 0]
    usual = median(spaces) if spaces else _TIGHT
    if usual >= _TIGHT:
        return set()
    gaps = _inner_gaps(line)
    steps = [(wide - narrow, wide) for narrow, wide in pairwise(sorted(gaps.values())) if wide > _SAME * usual]
    step, narrowest = max(steps, default=(0.0, 0.0))
    return {at for at, gap in gaps.items() if gap >= narrowest} if 0 < _CLEAR * narrowest <= step else set()


def _joints(line: GlyphLine, least: float) -> set[int]:
    """Positions between two digits, a digit and a letter, or a small and a capital letter with a gap.

    It is by `least` wider than the median gap of the line and than the gaps beside it: the digits of a number may all
    be apart.
    """
    places = [match.start() + 1 for match in _JOINT.finditer(line.body)]
    found = {at for at in places if line.spans[at][0] - line.spans[at - 1][1] > least * line.size}
    gaps = _inner_gaps(line) if found else {}
    usual = median(gaps.values()) if gaps else 0.0
    return {at for at in found & gaps.keys() if gaps[at] > least + max(usual, gaps.get(at - 1, 0), gaps.get(at + 1, 0))}


def _inner_gaps(line: GlyphLine) -> dict[int, float]:
    """The gap before each character by its index, in sizes, where neither it nor the one before is a space."""
    return {
        at: (line.spans[at][0] - line.spans[at - 1][1]) / line.size
        for at in range(1, len(line.body))
        if line.size > 0 and not (line.body[at - 1].isspace() or line.body[at].isspace())
    }
