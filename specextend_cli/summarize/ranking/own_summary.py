"""A document's own summary: what stands below "Executive summary" and the like, or an opening before its sections."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import log

import numpy as np
import regex
from numpy.typing import NDArray

from specextend_cli.summarize.ranking.candidates import Candidate
from specextend_cli.summarize.ranking.wording import wording
from specextend_cli.summarize.words import EMPTY

_LEAST, _SHARE = 25, 0.5  # words that can be quoted of what has such a heading; and the most of the document's
_OPENING, _OPENING_SHARE = range(60, 601), 0.25  # the same of an opening
_SECTIONS = 4  # of a document that has an opening
_KNOWN = 0.66  # of an opening's terms, at least, come again
_LONGER = 0.12  # more of a longer one's, by the logarithm of its hundreds of words
_NO_NOUN = regex.compile(r"(?:what|in|at|auf|en|em|de) .*|.* at a glance")
_NUMBER = r"(?:(?:\d{1,2}(?:\.\d{1,2})*|[IVX]{1,4}|[A-Z])[.)]?\s+)?"
_LEVEL = regex.compile(r"\s*(#{1,6})\s")
_LABEL = 40  # characters of a label before a paragraph: "Abstract. We show …"


@dataclass(frozen=True)
class OwnSummary:
    """What a document calls it ("executive summary"), or "opening"; and which sentences are of it, [sentences]."""

    name: str
    sentences: NDArray[np.bool_]


def own_summary(
    text: str, found: Sequence[Candidate], bags: Sequence[set[str]], sizes: NDArray[np.int64], language: str
) -> OwnSummary | None:
    """The own summary of a document; None where it has none. `sizes` are the words of what can be quoted, else 0.

    A heading in a table of contents has no sentences below it, and a legal notice none that can be quoted. An opening
    is one where its words come again below; `bags` are the terms of each sentence.
    """
    usable, total = sizes > 0, int(sizes.sum())
    if not total:
        return None
    own = [
        (name, rows) for name, rows in _named(text, found, language) if _LEAST <= sizes[rows].sum() <= _SHARE * total
    ]
    if own:
        name = own[0][0]  # below each heading of that name: of every chapter, or on every page
        rows = np.logical_or.reduce([other for called, other in own if called == name])
        return OwnSummary("summary" if _NO_NOUN.fullmatch(name) else name, rows & usable)
    opening = np.array([one.section == found[0].section for one in found], bool)
    words = int(sizes[opening].sum())
    if len({one.section for one in found}) < _SECTIONS or words not in _OPENING or words >= _OPENING_SHARE * total:
        return None
    # An introduction has more words of its own: examples, history, what is known.
    said, later = _terms(bags, opening & usable), _terms(bags, usable & ~opening)
    known = len(said & later) / max(len(said), 1)
    return OwnSummary("opening", opening & usable) if known >= _KNOWN + _LONGER * log(words / 100) else None


def _terms(bags: Sequence[set[str]], rows: NDArray[np.bool_]) -> set[str]:
    return set[str]().union(*(bags[i] for i in np.flatnonzero(rows).tolist())) - EMPTY


def _named(text: str, found: Sequence[Candidate], language: str) -> Iterator[tuple[str, NDArray[np.bool_]]]:
    """What summaries are called, and their sentences, in order."""
    called = wording(language).own_summary
    heading = regex.compile(rf"\W*{_NUMBER}(?P<name>{called})\W*", regex.IGNORECASE)
    label = regex.compile(rf"[^\w\n]*(?P<name>{called})[*_]* ?(?:[:.—–]| -)[*_]*\s+(?=\p{{L}})", regex.IGNORECASE)
    for i, one in enumerate(found):
        if one.kind == "heading" and (match := heading.fullmatch(one.heading)):
            yield match["name"].lower(), _below(text, found, i)
        elif one.kind == "prose" and one.place == 0 and (match := label.match(text, one.start, one.start + _LABEL)):
            yield match["name"].lower(), np.array([other.block == one.block for other in found], bool)


def _below(text: str, found: Sequence[Candidate], i: int) -> NDArray[np.bool_]:
    """The sentences below heading `i`, with those below a heading of a lower level.

    Marks say so (Markdown), or that it follows at once.
    """
    last, level = found[i].section, _level(text, found[i])
    for number, one in enumerate(found[i + 1 :], i + 1):
        if one.kind == "heading":
            if number > i + 1 and (level == 0 or _level(text, one) <= level):
                break
            last = one.section
    return np.array([found[i].section <= one.section <= last for one in found], bool)


def _level(text: str, heading: Candidate) -> int:
    return len(mark[1]) if (mark := _LEVEL.match(text, heading.start, heading.end)) else 0
