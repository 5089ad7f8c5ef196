"""The score of a sentence: thirteen numbers that need no language model, each with a weight; and its share of a focus.

The weights are fitted by `presets/sentence-ranker/fit.py`, least squares, to predict which part of a sentence's words
and word pairs its document's human summary has. Its card is there, too.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import regex
from numpy.typing import NDArray

from specextend_cli.summarize.ranking.candidates import Candidate
from specextend_cli.summarize.ranking.term_matrix import Array, TermMatrix
from specextend_cli.summarize.words import EMPTY, length_of, terms

WEIGHTS: Mapping[str, float] = {
    "frequency": 0.349,
    "opening": 0.211,
    "start": -0.139,
    "section_start": 0.101,
    "section_first": 0.030,
    "paragraph_first": 0.045,
    "key_heading": 0.085,
    "like_headings": 0.065,
    "like_title": 0.065,
    "like_before": -0.030,
    "names_itself": 0.051,
    "proposes": 0.041,
    "acronym": 0.028,
}
"""Of each number's standard score within the document."""
_KEY = regex.compile(
    r"\b(?:summary|abstract|overview|introduction|conclusions?|recommendations?|purpose|goals?|proposal|background"
    r"|motivation|results?|findings|discussion)\b",
    regex.IGNORECASE,
)
_ITSELF = regex.compile(
    r"\b[Tt]h(?:is|e) (?:report|paper|proposal|document|PEP|EIP|KEP|RFC|study|article|review|enhancement|standard"
    r"|specification|chapter|bill|act)\b"
)
_PROPOSES = regex.compile(r"\b(?:propos\w+|introduc\w+|add(?:s|ed|ing)?|allow\w*|provid\w+|defin\w+|enabl\w+)\b")
_ACRONYM = regex.compile(r"\b\p{Lu}{2,}\b")
_LOOSE = range(5, 81)  # words of what may be a sentence: numbers are compared within these
_OPENING = 5  # sentences
_START = 3.0  # sentences, and half as many sections, after which a beginning counts 1/e
_SECTIONS = 2.0
_MOST = 4.0  # standard scores
FOCUS = 8.0
"""Standard deviations of the scores that the sentence with most of a focus gains: more than the best one has."""
_ABOVE = 0.5  # of a word's weight in a focus, for a sentence that has it only in its heading


def score(text: str, title: str, found: Sequence[Candidate]) -> tuple[Array, list[set[str]]]:
    """The score of each candidate of a document with that `title`, [sentences], and each one's terms."""
    values, bags = numbers(text, title, found)
    total: Array = standard_scores(values, loose(text, found)) @ np.array(list(WEIGHTS.values()), np.float32)
    return total, bags


def numbers(text: str, title: str, found: Sequence[Candidate]) -> tuple[Array, list[set[str]]]:
    """The numbers of each candidate, [sentences, numbers], in the order of `WEIGHTS`; and each one's terms."""
    texts = [" ".join(text[one.start : one.end].split()) for one in found]
    prose = np.array([one.kind in ("prose", "item") for one in found], bool)
    bags = [terms(body) if ok else set[str]() for body, ok in zip(texts, prose, strict=True)]
    measured = _places(found, prose) | _terms(title, found, prose, bags)
    # "This report", "we propose": near the beginning they say what a document is about.
    near = measured.pop("section_nearness")
    measured["names_itself"] = near * [_ITSELF.search(body) is not None for body in texts]
    measured["proposes"] = near * [_PROPOSES.search(body) is not None for body in texts]
    measured["acronym"] = [_ACRONYM.search(body) is not None for body in texts]
    return np.stack([np.asarray(measured[name], np.float32) for name in WEIGHTS], 1), bags


def gain(
    focus: str, found: Sequence[Candidate], bags: Sequence[set[str]], usable: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """What each usable sentence gains by its share of the user's focus, in standard deviations, [sentences].

    A word weighs what its inverse document frequency says among the sentences; one that none of them has counts for
    nothing, and neither do words such as "what", unless there are no others. All 0 where no usable one has any of it.
    """
    asked = terms(focus)
    headings = {heading: terms(heading) for heading in {one.heading for one in found}}
    share = np.zeros(len(found))
    for term in sorted(asked - EMPTY or asked):
        own = np.array([term in bag for bag in bags], bool)
        above = np.array([term in headings[one.heading] for one in found], bool)
        if number := own.sum() or above.sum():
            share += math.log1p(len(bags) / number) * np.where(own, 1.0, _ABOVE * above)
    share = np.where(usable, share, 0.0)
    gained: NDArray[np.float64] = share * FOCUS / max(float(share.max(initial=0.0)), 1e-9)
    return gained


def loose(text: str, found: Sequence[Candidate]) -> NDArray[np.bool_]:
    """Which candidates may be sentences, by kind and length, [sentences]."""
    return np.array(
        [one.kind in ("prose", "item") and int(length_of(text[one.start : one.end])) in _LOOSE for one in found], bool
    )


def standard_scores(values: Array, among: NDArray[np.bool_]) -> Array:
    """Values less the mean of some rows, by their standard deviation, for each column; 0 where there is only one."""
    if among.sum() < 2:
        return np.zeros_like(values)
    chosen = values[among]
    scores: Array = ((values - chosen.mean(0)) / (chosen.std(0) + 1e-6)).astype(np.float32)
    return scores.clip(-_MOST, _MOST)


def _places(found: Sequence[Candidate], prose: NDArray[np.bool_]) -> dict[str, Any]:
    """Where sentences stand; `section_nearness` says how near the beginning their sections are."""
    section, within = np.zeros(len(found)), np.zeros(len(found))
    begun: Counter[int] = Counter()  # sections that have prose, in order, and how much of it came already
    for number, one in enumerate(found):
        if prose[number]:
            within[number] = begun[one.section]
            begun[one.section] += 1
        section[number] = len(begun) - prose[number]
    near = np.exp(-section / _SECTIONS)
    return {
        "start": np.exp(-(np.cumsum(prose) - 1) / _START),
        "section_nearness": near,
        "section_start": near * np.exp(-within / _SECTIONS),
        "section_first": prose & (within == 0),
        "paragraph_first": [one.place == 0 for one in found],
    }


def _terms(
    title: str, found: Sequence[Candidate], prose: NDArray[np.bool_], bags: Sequence[set[str]]
) -> dict[str, Any]:
    matrix = TermMatrix(bags)
    headings = list(dict.fromkeys(one.heading for one in found if one.heading))
    key = {heading: _KEY.search(heading) is not None for heading in headings}
    return {
        "frequency": matrix.frequency(),
        "opening": matrix.like_sum(prose & (np.cumsum(prose) <= _OPENING)),
        "key_heading": [key.get(one.heading, False) for one in found],
        "like_headings": matrix.like(set().union(*map(terms, headings))),
        "like_title": matrix.like(terms(headings[0] if headings else "") | terms(title)),
        "like_before": matrix.like_before(),
    }
