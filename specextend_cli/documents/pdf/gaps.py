"""Gaps in the lines of a PDFium text page: those between table cells, or columns, become tabs; missing spaces are put.

PDFium writes one space between cells, as between words, and none where words are set tight.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from specextend_cli.documents.line import runs
from specextend_cli.documents.pdf.glyphs import GlyphLine, Repair

_LOOSE = 0.54  # in sizes: a line with wider average characters has gaps in it
_LONG = 24  # characters of a line that may span two columns
_SAMPLE = 12  # lines of a page
_ENOUGH = 3  # lines of the sample with gaps; rows with figures in one column
_WIDE = 1.5  # times as wide a gap must be in other lines
_LABEL = re.compile(r"\(?\w{1,6}[.)]|\d{1,2}(?:\.\d{1,2})*|\W")  # its gap separates no columns
_EQUAL = 0.05  # sizes between the widths of the spaces of a justified line, by kerning
_FEW = 3  # spaces: with fewer a line is too short to tell whether it is justified
_UNEVEN = 0.12  # relative difference of sizes within a line that may be two
_FAR = 1.5  # sizes: least gap between two lines that were joined
_WORD = re.compile(r"[^\W\d_]{3}")
_TIGHT = 0.2  # sizes: narrower are the spaces of a line with words so near to each other that PDFium misses some
_SAME = 0.5  # of the median space of a line: a narrower gap is none
_CLEAR = 0.5  # of the narrowest gap between words: how much narrower the widest gap within words must be
_APART = 0.1  # sizes: how much wider than others a gap between two figures, or a missing space is
_SPACE = re.compile(r"(?<=\S) (?=\S)")
_JOINT = re.compile(r"(?=\d\d|\d[^\W\d_]|[^\W\d_]\d|[a-zà-öø-ÿ][A-ZÀ-ÖØ-Þ])")
_NUMBER = re.compile(
    r"[($€£¥~≈±<>+−–-]{0,3}\d(?:[\d.,:/]*\d)?(?:[eE][+−-]?\d+)?(?:[%)*†‡⁰¹²³⁴⁵⁶⁷⁸⁹ᵃᵇᶜᵈᵉᶠ]|[a-zA-Z](?![a-zA-Z])){0,3}|[—–-]|[nN]/?[aA]|\.{1,3}|\*{1,3}"
)
_FIGURE_SPACE, _WIDER = 0.4, 1.3  # least gap before a figure, in sizes and in spaces of its line
_KERNED = 0.03  # sizes: additional width of a gap between a letter and a figure
_NEARBY_ROWS = 8  # rows above and below in which a gap may recur
_MOST = 100  # figures in a row
_NEAR = 2.5  # sizes from one row to the next


def find_cells(lines: Sequence[GlyphLine]) -> None:
    """Put tabs in the gaps of the lines of a page."""
    dense = []  # lines that may span two columns: their width does not indicate a gap
    for line in lines:
        if line.right - line.left > _LOOSE * line.size * len(line.body) or _uneven(line):
            _mark(line, line.size)
        elif len(line.body) > _LONG:
            dense.append(line)
    sample = dense[:: max(len(dense) // _SAMPLE, 1)]  # tells whether they are worth it
    found = sum(bool(_wide_gaps(line, _WIDE * line.size)) for line in sample)
    if found + sum(bool(line.gaps) for line in lines) >= _ENOUGH:
        for line in dense:
            _mark(line, _WIDE * line.size)
    _find_figures(lines)


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
    widths = [right - left for _, (left, right) in found]
    words = "".join(body[at + 1] for at, _ in found)
    is_prose = len(found) >= _FEW and words.isalpha() and any(map(str.islower, words))
    if is_prose and max(widths) - min(widths) < _EQUAL * line.size:
        return []  # in justified prose all spaces may be wide
    if len(found) > _FEW and sum(map(str.islower, words)) > 0.5 * len(found):
        least = max(least, min(1.6 * median(widths), 2 * size))
    return [(at, (left, right)) for at, (left, right) in found if right - left > least]


def _gaps(line: GlyphLine) -> list[tuple[int, tuple[float, float]]]:
    """The index of each single space of a line, and the end of the character before it and the left end of the next."""
    span, first, turn = line.glyphs.span, line.first, line.head.turn
    spaces = [match.start() for match in _SPACE.finditer(line.body)]
    return [(at, (round(span(first + at - 1, turn)[1], 2), round(span(first + at + 1, turn)[0], 2))) for at in spaces]


@dataclass(frozen=True, slots=True, eq=False)
class _Gap:
    """A gap in a row; `line` is None where it is certain: a wide one, or one between two lines."""

    left: float
    right: float
    line: GlyphLine | None = None
    place: int = 0


def _find_figures(lines: Sequence[GlyphLine]) -> None:
    """Mark gaps before figures, however narrow, that recur at one place in several rows."""
    rows = list(_rows(lines))
    sure = [[gap for gap in gaps if gap.line is None or _recurs(rows, at, gap)] for at, (_, gaps) in enumerate(rows)]
    for at, (_, gaps) in enumerate(rows):
        around = sure[max(at - _NEARBY_ROWS, 0) : at] + sure[at + 1 : at + _NEARBY_ROWS + 1]
        for gap in gaps:
            if gap.line is None:
                continue
            words = gap.line.body.split()
            of_figures = gap.line.gaps or 2 * sum(map(bool, map(_NUMBER.fullmatch, words))) >= len(words)
            # The rows next to it may lack that cell.
            if gap in sure[at] or (of_figures and sum(_is_shared(row, gap) for row in around) >= _ENOUGH - 1):
                _divide(gap.line, gap)


def _rows(lines: Sequence[GlyphLine]) -> Iterator[tuple[GlyphLine, list[_Gap]]]:
    """The first line of each row that has gaps, and these: wide ones, between two lines, and before figures."""

    def same_row(row: list[GlyphLine], line: GlyphLine) -> bool:
        return row[0].head.turn == line.head.turn and row[0].base - line.base < 0.3 * line.size

    for row in runs(sorted(lines, key=lambda line: (line.head.turn, -line.base)), same_row):
        row.sort(key=lambda line: line.left)
        gaps = [_Gap(*ends) for line in row for ends in line.gaps]
        gaps += [_Gap(a.right, b.left) for a, b in pairwise(row) if a.right < b.left]
        gaps += [gap for line in row for gap in _before_figures(line)]
        if 0 < len(gaps) <= _MOST:
            yield row[0], sorted(gaps, key=lambda gap: gap.left)


def _before_figures(line: GlyphLine) -> Iterator[_Gap]:
    """Gaps before figures that are wider than a space, and gaps between digits of two figures."""
    words = list(re.finditer(r"\S+", line.body))
    figures = {match.start() for match in words if _NUMBER.fullmatch(match[0])}
    pairs = {b.start() for a, b in pairwise(words) if b.start() in figures and line.body[a.end() : b.start()] == " "}
    if pairs and line.size > 0:
        spaces = {at: (right - left) / line.size for at, (left, right) in _gaps(line)}
        usual = [gap for at, gap in spaces.items() if at + 1 not in pairs]
        least = max(_FIGURE_SPACE, _WIDER * median(usual)) if usual else _FIGURE_SPACE
        real = sum(not line.glyphs.generated(line.first + at) for at in spaces)
        for start in sorted(pairs):
            put = real and line.glyphs.generated(line.first + start - 1)
            if put or spaces[start - 1] > least:
                yield _Gap(line.spans[start - 2][1], line.spans[start][0], line, start - 1)
    between_digits = _joints(line, _APART)
    for at in _joints(line, _KERNED):
        if line.body[at].isdigit() and (at in between_digits or not line.body[at - 1].isdigit()):
            yield _Gap(line.spans[at - 1][1], line.spans[at][0], line, at)


def _recurs(rows: Sequence[tuple[GlyphLine, list[_Gap]]], at: int, gap: _Gap) -> bool:
    """True if two of the next rows, up and down, without another between them, have a gap at the same place."""
    found, here = 0, rows[at][0]
    for step in (-1, 1):
        for away in range(1, _ENOUGH):
            line, gaps = rows[at + step * away] if 0 <= at + step * away < len(rows) else (here, [])
            near = here.head.turn == line.head.turn and abs(here.base - line.base) <= away * _NEAR * here.size
            if not near or not _is_shared(gaps, gap):
                break
            found += 1
    return found >= _ENOUGH - 1


def _is_shared(row: Sequence[_Gap], gap: _Gap) -> bool:
    """True if one of the (sorted) gaps of a row is above or below a gap."""
    at = bisect_right(row, gap.left, key=lambda other: other.right)
    return at < len(row) and row[at].left < gap.right


def _divide(line: GlyphLine, gap: _Gap) -> None:
    """Replace a space by a tab, or insert one between two digits."""
    if line.body[gap.place] == " ":
        line.body = f"{line.body[: gap.place]}\t{line.body[gap.place + 1 :]}"
    else:
        line.changed[gap.place] = f"\t{line.body[gap.place]}"
    line.gaps = sorted([*line.gaps, (gap.left, gap.right)])


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
