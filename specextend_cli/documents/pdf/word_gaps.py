"""Spaces that a PDF page lacks, by the gaps between characters, in units of the type size."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from statistics import median

from specextend_cli.documents.pdf.glyphs import GlyphLine, Repair

_MIN_GAP = 0.1  # a narrower gap between two letters is no space
_LEAST = 0.05  # where the spaces of the line are narrow
_TIGHT = 0.2  # the spaces of a line with words so near to each other that PDFium misses some
_SAME = 0.5  # of the median space of a line: a narrower gap is none
_CLEAR = 0.5  # of the narrowest gap between words: how much narrower the widest gap within words must be
_MAX_SHARE = 0.4  # of the gaps between letters: with more wide ones, the text is letter-spaced
_SINGLE = 0.34  # of the words: with more single letters, the line is letter-spaced
_JOINT = re.compile(r"(?=\d\d|\d[^\W\d_]|[^\W\d_]\d|[a-zà-öø-ÿ][A-ZÀ-ÖØ-Þ])")
_TOO_LONG = re.compile(r"[^\W\d_]{15,}")
# Scripts without spaces between words: Thai, Lao, Myanmar, Khmer; Chinese, Japanese.
_UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u9fff\uf900-\ufaff\uff00-\uffef]")


def put_spaces(lines: Sequence[GlyphLine]) -> list[Repair]:
    """Insert missing spaces in the lines of a page: in words that are too long, and narrow spaces; the repairs."""
    repairs: list[Repair] = []
    for line in lines:
        missing = joints(line, _MIN_GAP) | (
            missing_spaces(line) if _TOO_LONG.search(line.body) or _is_tight(line) else set()
        )
        if missing := missing - line.changed.keys():
            before, line.changed = line.text, line.changed | {at: f" {line.body[at]}" for at in missing}
            repairs.append(("space put", before, line.text))
    return repairs


def _is_tight(line: GlyphLine) -> bool:
    """True if all spaces of a line are PDFium's own, and narrow ones."""
    at = line.body.find(" ")
    if at < 0 or not line.glyphs.generated(line.first + at):
        return False
    spaces = line.word_spaces
    return bool(spaces) and median(spaces.values()) < _TIGHT


def joints(line: GlyphLine, least: float) -> set[int]:
    """Positions in a line between two digits, a digit and a letter, or a small and a capital letter with a gap.

    The gap is by `least` wider than the median gap of the line and than the gaps on both sides of it: the digits of a
    number may all be apart.
    """
    places = [match.start() + 1 for match in _JOINT.finditer(line.body)]
    found = {at for at in places if line.spans[at][0] - line.spans[at - 1][1] > least * line.size}
    gaps = line.inner_gaps if found else {}
    if not gaps:
        return set()
    usual = median(gaps.values())
    return {at for at in found if gaps[at] > least + max(usual, gaps.get(at - 1, 0.0), gaps.get(at + 1, 0.0))}


def missing_spaces(line: GlyphLine) -> set[int]:
    """The positions in a line before which a space is missing.

    Gaps between words are clearly wider than those within words, and as wide as the spaces that the line has. Where the
    widths of gaps do not fall into two groups, none is found.
    """
    body, gaps, spaces = line.body, line.inner_gaps, line.word_spaces
    least = max(_LEAST, _SAME * median(spaces.values())) if spaces else _MIN_GAP
    ordered = sorted(gaps.values())
    steps = [(wide - narrow, wide) for narrow, wide in pairwise(ordered) if wide > least]
    step, narrowest = max(steps, default=(0.0, 0.0))
    wide = {at for at, gap in gaps.items() if gap >= narrowest}
    if step <= 0 or step < _CLEAR * narrowest or len(wide) > _MAX_SHARE * len(gaps):
        return set()
    wide = {at for at in wide if not (_UNSPACED.match(body[at - 1]) or _UNSPACED.match(body[at]))}
    words = "".join(f" {letter}" if at in wide else letter for at, letter in enumerate(body)).split()
    single = sum(len(word) == 1 and word.isalpha() for word in words)
    return wide if single <= _SINGLE * len(words) else set()
