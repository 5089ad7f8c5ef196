"""What can be known about every sentence without a language model: an array of numbers for the ranker.

Centrality is that of continuous LexRank (Erkan and Radev, 2004): a sentence is central that shares rare words with many
others. Its power iteration runs on the sparse matrix of terms, so that its time grows with the number of words.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import regex
from numpy.typing import NDArray

from specextend_cli.summarize.ranking.candidates import Candidate
from specextend_cli.summarize.ranking.term_matrix import TermMatrix
from specextend_cli.summarize.text.terms import terms
from specextend_cli.summarize.text.words import length_of

Array = NDArray[np.float32]

MEASURES = (
    "place", "place_log", "section_number", "section_place", "block_part", "words_log", "lexrank", "frequent_mean",
    "new_terms", "like_opening", "like_closing", "like_heading", "like_headings", "like_before",
)  # fmt: skip
"""The names of the first columns. "block" is a paragraph."""
SCORES = (
    "section_end", "block_place", "block_end", "words_log", "lexrank", "frequent_mean", "new_terms", "like_opening",
    "like_closing", "like_heading", "like_headings", "like_before",
)  # fmt: skip
"""What comes as a standard score within the document, most of it beside its value."""
_PATTERNS = {
    "this_document": regex.compile(
        r"\b[Tt]h(?:is|e) (?:report|paper|proposal|document|PEP|EIP|KEP|RFC|study|article|review"
        r"|enhancement|standard|specification|chapter|bill|act)\b"
    ),
    "this_noun": regex.compile(r"\bth(?:is|ese) \p{Ll}+"),
    "present": regex.compile(r"\b(?:is|are|has|have)\b"),
    "propose": regex.compile(r"\b(?:propos\w+|introduc\w+|add(?:s|ed|ing)?|allow\w*|provid\w+|defin\w+|enabl\w+)\b"),
    "name": regex.compile(r"\b\p{Lu}\p{Ll}+ \p{Lu}\p{Ll}+"),
    "acronym": regex.compile(r"\b\p{Lu}{2,}\b"),
}
"""Words and marks that a sentence has or has not; the words are English."""
_INTRODUCES = regex.compile(
    r"\b(?:introduction|background|motivation|problem|purpose|objectives?|goals?|context|preamble|overview"
    r"|simple summary|what (?:is|are|we))\b",
    regex.IGNORECASE,
)
_LOOSE = range(5, 81)  # words of what may be a sentence: features are compared within these
_ROUNDS = 10  # of LexRank's power iteration
_DAMPING = 0.85
_OPENING = 5  # sentences


def columns() -> tuple[str, ...]:
    """The names of the columns of `features`."""
    return (*MEASURES, *(f"{name}_score" for name in SCORES), "introduces", *_PATTERNS)


def features(text: str, found: Sequence[Candidate]) -> tuple[Array, list[set[str]]]:
    """Features of each candidate, [candidates, features], and each one's terms. `columns` names the features."""
    texts = [" ".join(text[one.start : one.end].split()) for one in found]
    prose = [one.kind in ("prose", "item") for one in found]
    bags = [terms(body) if ok else set() for body, ok in zip(texts, prose, strict=True)]
    words = {"words_log": np.log1p([length_of(body) for body in texts])}
    measures = _places(found) | words | _terms(TermMatrix(bags), found, bags)
    introduces = {one.heading: _INTRODUCES.search(one.heading) is not None for one in found}
    cues = [[pattern.search(body) is not None for body in texts] for pattern in _PATTERNS.values()]
    parts = (
        _stacked(measures[name] for name in MEASURES),
        standard_scores(_stacked(measures[name] for name in SCORES), loose(text, found)),
        _stacked([[introduces[one.heading] for one in found], *cues]),
    )
    return np.concatenate(parts, 1, dtype=np.float32), bags


def loose(text: str, found: Sequence[Candidate]) -> NDArray[np.bool_]:
    """Which candidates may be sentences, by kind and length: what standard scores compare, [candidates]."""
    return np.array(
        [one.kind in ("prose", "item") and int(length_of(text[one.start : one.end])) in _LOOSE for one in found], bool
    )


def standard_scores(values: Array, among: NDArray[np.bool_]) -> Array:
    """Values less the mean of some rows, by their standard deviation, for each column; 0 where there is only one."""
    if among.sum() < 2:
        return np.zeros_like(values)
    chosen = values[among]
    scores: Array = ((values - chosen.mean(0)) / (chosen.std(0) + 1e-6)).astype(np.float32)
    return scores


def _stacked(rows: Iterable[Any]) -> Array:
    return np.stack([np.asarray(row, np.float32) for row in rows], 1)


def _places(found: Sequence[Candidate]) -> dict[str, Any]:
    n = len(found)
    place = np.arange(n, dtype=np.float32)
    section, block = np.array([one.section for one in found]), np.array([one.block for one in found])
    in_section = place - np.searchsorted(section, section)
    number = np.cumsum(np.diff(section, prepend=section[:1]) != 0)
    return {
        "place": place / n,
        "place_log": np.log1p(place),
        "block_place": np.log1p([one.place for one in found]),
        "block_end": np.log1p(np.bincount(block)[block] - 1 - (place - np.searchsorted(block, block))),
        "block_part": block / max(block[-1], 1),
        "section_place": np.log1p(in_section),
        "section_end": np.log1p(np.bincount(section)[section] - 1 - in_section),
        "section_number": number / max(number[-1], 1),
    }


def _terms(matrix: TermMatrix, found: Sequence[Candidate], bags: Sequence[set[str]]) -> dict[str, Any]:
    n = len(found)
    ones, place = np.ones(n, np.float32), np.arange(n)
    degree = matrix.dot(matrix.total(ones)) / max(sum(map(bool, bags)), 1)
    rank: NDArray[Any] = ones / n
    for _ in range(_ROUNDS):
        spread = matrix.dot(matrix.total(rank / np.maximum(degree, 1e-6)))
        rank = (1 - _DAMPING) / n + _DAMPING * spread / max(float(spread.sum()), 1e-9)
    headings = {text: number for number, text in enumerate(dict.fromkeys(one.heading for one in found))}
    which = np.array([headings[one.heading] for one in found], np.int64)
    in_headings = [terms(text) for text in headings]
    seen: set[str] = set()
    fresh = np.zeros(n, np.float32)
    for number, bag in enumerate(bags):
        fresh[number] = len(bag - seen) / max(len(bag), 1)
        seen |= bag
    return {
        "lexrank": rank * n,
        "frequent_mean": matrix.mean(matrix.frequency / max(n, 1)),
        "new_terms": fresh,
        "like_opening": _cosine(matrix, place < _OPENING),
        "like_closing": _cosine(matrix, place >= n - _OPENING),
        "like_heading": matrix.likeness(in_headings, which),
        "like_headings": matrix.dot(matrix.row(set().union(*in_headings))),
        "like_before": np.concatenate([[0], matrix.neighbours()[:-1]]),
    }


def _cosine(matrix: TermMatrix, rows: NDArray[np.bool_]) -> Array:
    """Each sentence's cosine with the sum of some of them, [sentences]."""
    total = matrix.total(rows.astype(np.float32))
    return matrix.dot(total / np.float32(max(float(np.linalg.norm(total)), 1e-9)))
