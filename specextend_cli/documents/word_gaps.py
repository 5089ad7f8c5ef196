"""Spaces that a PDF page lacks, or that PDFium put inside words, by the gaps between the characters of a line.

All gaps are in sizes of the type.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence
from itertools import pairwise
from statistics import median

from specextend_cli.documents.printed import Printed

Mended = tuple[str, str, str]
"""The kind of a repair, and a text before and after it."""

_LEAST = 0.1  # a narrower gap between two letters is no space
_NARROWEST = 0.2  # a space of type that is set with care
_SAME = 0.6  # of the usual space of a line: what is narrower is none
_USUAL = 3  # spaces that tell what is usual in a line
_CLEAR = 0.5  # of the narrowest gap between words: how much narrower the widest gap within words must be
_MOST = 0.4  # of the places between letters: with more gaps, letters are set apart
_SINGLE = 0.34  # of the words: with more single letters, they are parts of words
_JOINT = re.compile(r"(?=\d\d|\d[^\W\d_]|[^\W\d_]\d|[a-zà-öø-ÿ][A-ZÀ-ÖØ-Þ])")
_WORD = re.compile(r"[^\W\d_]+")
_PAIR = re.compile(r"(?<![^\W\d_])([^\W\d_]+) (?=([^\W\d_]+|[.,;:]))")
_TOO_LONG = re.compile(r"[^\W\d_]{15,}")
# Writing without spaces between words: Thai, Lao, Myanmar, Khmer; Chinese, Japanese.
_UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u9fff\uf900-\ufaff\uff00-\uffef]")


def mend(lines: Sequence[Printed]) -> list[Mended]:
    """Put spaces where words stand apart and PDFium saw none, and remove those it saw within words; what was changed.

    Lost spaces show by words that are too long; where one of them was several words, all lines of the page are looked
    at.
    """
    lost = any(map(_is_run_together, lines))
    counted = Counter(word for line in lines for word in _WORD.findall(line.body))
    repeated = {word for word, number in counted.items() if number > 1}
    mended: list[Mended] = []
    for line in lines:
        body = line.body
        generated = [at for at, letter in enumerate(body) if letter == " " and line.glyphs.generated(line.first + at)]
        missing = missing_spaces(body, line.spans, line.size) if lost else set()
        missing |= joints(line, _LEAST)
        mixed = 0 < len(generated) < body.count(" ")
        false = false_spaces(body, line.spans, line.size, generated, repeated) if mixed else set()
        for kind, changed in (
            ("space removed", dict.fromkeys(false, "")),
            ("space put", {at: f" {body[at]}" for at in missing if at not in line.changed}),
        ):
            if changed:
                before, line.changed = line.text, line.changed | changed
                mended.append((kind, before, line.text))
    return mended


def _is_run_together(line: Printed) -> bool:
    """Whether one of its words is too long, and is several by the gaps in it."""
    long = [match.span() for match in _TOO_LONG.finditer(line.body)]
    missing = missing_spaces(line.body, line.spans, line.size) if long else set()
    return any(start < at < end for at in missing for start, end in long)


def joints(line: Printed, least: float) -> set[int]:
    """The places in a line between two digits, a digit and a letter, or a small and a capital letter that stand apart.

    `least`: by how much more than the line's characters do, in sizes.
    """
    found = set()
    for match in _JOINT.finditer(line.body):
        at = match.start() + 1
        left, right = line.glyphs.spans(line.first + at - 1, 2, line.head.turn)
        if right[0] - left[1] > least * line.size:
            found.add(at)
    gaps = inner_gaps(line.body, line.spans, line.size) if found else {}
    if not gaps:
        return set()
    usual = median(gaps.values())
    return {at for at in found if gaps[at] > usual + least}


def missing_spaces(body: str, spans: Sequence[tuple[float, float]], size: float) -> set[int]:
    """The places in a line before which it lacks a space.

    `spans` are the left and right ends of its characters. Gaps between words are told from those within words by being
    clearly wider, and as wide as the spaces that the line has. In type whose gaps differ by any amount nothing is put.
    """
    gaps = inner_gaps(body, spans, size)
    spaces = word_spaces(body, spans, size)
    least = max(_LEAST, _SAME * median(spaces.values())) if spaces else _LEAST
    ordered = sorted(gaps.values())
    steps = [(wide - narrow, wide) for narrow, wide in pairwise(ordered) if wide > least]
    step, narrowest = max(steps, default=(0.0, 0.0))
    wide = {at for at, gap in gaps.items() if gap >= narrowest}
    if step <= 0 or step < _CLEAR * narrowest or len(wide) > _MOST * len(gaps):
        return set()
    wide = {at for at in wide if not (_UNSPACED.match(body[at - 1]) or _UNSPACED.match(body[at]))}
    words = "".join(f" {letter}" if at in wide else letter for at, letter in enumerate(body)).split()
    single = sum(len(word) == 1 and word.isalpha() for word in words)
    return wide if single <= _SINGLE * len(words) else set()


def false_spaces(
    body: str, spans: Sequence[tuple[float, float]], size: float, generated: Sequence[int], words: Collection[str]
) -> set[int]:
    """The places of spaces that PDFium put between letters of a word, narrower than those that the file has.

    `generated` are the places of the spaces that are PDFium's own, `words` those that are seen elsewhere: beside one of
    them, a space is kept.
    """
    spaces = word_spaces(body, spans, size)
    usual = [gap for at, gap in spaces.items() if at not in generated]
    if len(usual) < _USUAL:
        return set()
    least = min(_SAME * median(usual), _NARROWEST)
    false = set()
    for match in _PAIR.finditer(body):
        at = match.end(1)
        known = any(len(part) > 2 and part in words for part in match.groups())
        if at in generated and 0 < spaces.get(at, 0.0) < least and not known:
            false.add(at)
    return false


def inner_gaps(body: str, spans: Sequence[tuple[float, float]], size: float) -> dict[int, float]:
    """The gap before each character that follows another, neither of them a space."""
    return {
        at: (spans[at][0] - spans[at - 1][1]) / size
        for at in range(1, len(body))
        if size > 0 and not (body[at - 1].isspace() or body[at].isspace())
    }


def word_spaces(body: str, spans: Sequence[tuple[float, float]], size: float) -> dict[int, float]:
    """The width of each single space between characters."""
    return {
        match.start(): (spans[match.end()][0] - spans[match.start() - 1][1]) / size
        for match in re.finditer(r"(?<=\S) (?=\S)", body)
        if size > 0
    }
