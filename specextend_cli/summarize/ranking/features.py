"""What can be known about every sentence without a language model: an array of numbers for the ranker.

Centrality is that of continuous LexRank (Erkan and Radev, 2004): a sentence is central that shares rare words with many
others. Its power iteration runs on the sparse matrix of terms, so that its time grows with the number of words.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import regex
from numpy.typing import NDArray

from specextend_cli.summarize.ranking.candidates import Candidate
from specextend_cli.summarize.ranking.term_matrix import TermMatrix
from specextend_cli.summarize.tfidf import terms
from specextend_cli.summarize.word_count import count_words

Array = NDArray[np.float32]

# fmt: off
MEASURES = (
    "like_opening", "frequent_mean", "like_headings", "words_log", "spread", "capitals", "persists", "lexrank",
    "like_heading", "degree_before", "degree_after", "section_place", "among_log", "among_section", "place_log",
    "block_words", "block_part", "section_number", "section_weight", "degree", "among_end", "like_closing",
    "section_degree", "block_degree", "first_use", "new_terms", "place_squared", "like_before", "later_more",
    "centroid_sum", "opens_block", "place", "earlier", "later",
)
"""The names of the first columns. "among" counts the sentences that are compared (see `loose`), "block" paragraphs."""
SCORES = (
    "frequent_mean", "degree", "like_opening", "like_headings", "among_section", "degree_before", "words_log",
    "opens_block", "spread", "earlier", "capitals", "place_log", "lexrank", "first_tenth", "section_place", "among_end",
    "place", "later", "block_place", "section_degree", "first_use", "block_part", "first_section", "new_terms",
    "words_short", "like_before", "section_end", "block_end", "like_heading", "digits", "question", "like_closing",
    "block_words", "section_weight", "section_number", "quotation", "last_tenth", "among_part", "among_log", "persists",
    "heading_words", "degree_after", "last_section", "opens_document", "parentheses",
)
"""What comes as a standard score within the document, most of it beside its value."""
# fmt: on
_WORDS = {
    "this_document": r"\b[Tt]h(?:is|e) (?:report|paper|proposal|document|PEP|EIP|KEP|RFC|study|article|review"
    r"|enhancement|standard|specification|chapter|bill|act)\b",
    "this_noun": r"\bth(?:is|ese) \p{Ll}+",
    "present": r"\b(?:is|are|has|have)\b",
    "propose": r"\b(?:propos\w+|introduc\w+|add(?:s|ed|ing)?|allow\w*|provid\w+|defin\w+|enabl\w+)\b",
    "name": r"\b\p{Lu}\p{Ll}+ \p{Lu}\p{Ll}+",
    "acronym": r"\b\p{Lu}{2,}\b",
    "past": r"\b(?:was|were|had)\b",
    "we": r"\bwe\b",
    "person": r"\b(?:I|my|you|your)\b",
    "recommend": r"\brecommend\w*|\bshould\b|\bmust\b",
    "number": r"\d",
}
CUES = ("this_document", "this_noun", "present", "propose", "name", "acronym")
"""Words and marks that a sentence has or has not; the words are English."""
SHARES = ("propose", "past", "we", "person", "recommend", "number")
"""Those of which the share of a document's sentences says what kind of text it is."""
KIND = ("sentences", "words", "block_sentences", "sections", "capitals")
"""What else is the same for all sentences of a document."""
_INTRODUCES = regex.compile(
    r"\b(?:introduction|background|motivation|problem|purpose|objectives?|goals?|context|preamble|overview"
    r"|simple summary|what (?:is|are|we))\b",
    regex.IGNORECASE,
)
_PATTERNS = {name: regex.compile(pattern) for name, pattern in _WORDS.items()}
_DIGIT, _CAPITAL = regex.compile(r"\d"), regex.compile(r"\b\p{Lu}")
_LOOSE = range(5, 81)  # words of what may be a sentence: features are compared within these
_ROUNDS = 10  # of LexRank's power iteration
_DAMPING = 0.85
_OPENING = 5  # sentences
_SHORT = 12  # words


def columns() -> tuple[str, ...]:
    """The names of the columns of `features`."""
    scores, document = (f"{name}_score" for name in SCORES), (f"document_{name}" for name in (*SHARES, *KIND))
    return (*MEASURES, *scores, "introduces", *CUES, *document)


def features(text: str, found: Sequence[Candidate]) -> tuple[Array, list[set[str]]]:
    """Features of each candidate, [candidates, features], and each one's terms. `columns` names the features."""
    texts = [" ".join(text[one.start : one.end].split()) for one in found]
    prose = [one.kind in ("prose", "item") for one in found]
    bags = [terms(body) if ok else set() for body, ok in zip(texts, prose, strict=True)]
    usable = loose(text, found)
    words = np.array([count_words(body) for body in texts], np.float32)
    measures = _places(found, usable) | _forms(texts, found, words) | _terms(TermMatrix(bags), found, bags)
    cues = {
        name: np.array([pattern.search(body) is not None for body in texts], np.float32)
        for name, pattern in _PATTERNS.items()
    }
    introduces = {one.heading: _INTRODUCES.search(one.heading) is not None for one in found}
    parts = (
        _stacked(MEASURES, measures),
        standard_scores(_stacked(SCORES, measures), usable),
        _stacked(["introduces"], {"introduces": [introduces[one.heading] for one in found]}),
        _stacked(CUES, cues),
        np.tile(_kind(found, usable, words, measures, cues), (len(found), 1)),
    )
    return np.concatenate(parts, 1, dtype=np.float32), bags


def loose(text: str, found: Sequence[Candidate]) -> NDArray[np.bool_]:
    """Which candidates may be sentences, by kind and length: what standard scores compare, [candidates]."""
    return np.array(
        [one.kind in ("prose", "item") and len(text[one.start : one.end].split()) in _LOOSE for one in found], bool
    )


def standard_scores(values: Array, among: NDArray[np.bool_]) -> Array:
    """Values less the mean of some rows, by their standard deviation, for each column; 0 where there is only one."""
    if among.sum() < 2:
        return np.zeros_like(values)
    chosen = values[among]
    scores: Array = ((values - chosen.mean(0)) / (chosen.std(0) + 1e-6)).astype(np.float32)
    return scores


def _stacked(names: Sequence[str], found: Mapping[str, Any]) -> Array:
    return np.stack([np.asarray(found[name], np.float32) for name in names], 1)


def _places(found: Sequence[Candidate], usable: NDArray[np.bool_]) -> dict[str, Any]:
    n = len(found)
    place = np.arange(n, dtype=np.float32)
    section, block = np.array([one.section for one in found]), np.array([one.block for one in found])
    starts = np.searchsorted(section, section)
    in_section, section_size = place - starts, np.bincount(section)[section]
    in_block, block_size = np.array([one.place for one in found]), np.bincount(block)[block]
    number = np.cumsum(np.diff(section, prepend=section[:1]) != 0)
    among = np.maximum(np.cumsum(usable) - usable, 0).astype(np.float32)
    return {
        "place": place / n,
        "place_squared": (place / n) ** 2,
        "place_log": np.log1p(place),
        "first_tenth": place < 0.1 * n,
        "last_tenth": place >= 0.9 * n,
        "opens_document": place < 3,
        "opens_block": in_block == 0,
        "block_place": np.log1p(in_block),
        "block_end": np.log1p(block_size - 1 - (place - np.searchsorted(block, block))),
        "block_part": block / max(block[-1], 1),
        "section_place": np.log1p(in_section),
        "section_end": np.log1p(section_size - 1 - in_section),
        "section_number": number / max(number[-1], 1),
        "first_section": number == 0,
        "last_section": number == number[-1],
        "among_log": np.log1p(among),
        "among_part": among / max(usable.sum(), 1),
        "among_end": np.log1p(np.maximum(usable.sum() - 1 - among, 0)),
        "among_section": np.log1p(among - among[starts]),
    }


def _forms(texts: Sequence[str], found: Sequence[Candidate], words: Array) -> dict[str, Any]:
    letters = [max(len(body), 1) for body in texts]
    block = np.array([one.block for one in found])
    return {
        "words_log": np.log1p(words),
        "words_short": words < _SHORT,
        "digits": [len(_DIGIT.findall(body)) / size for body, size in zip(texts, letters, strict=True)],
        "capitals": [len(_CAPITAL.findall(body)) / max(w, 1) for body, w in zip(texts, words, strict=True)],
        "parentheses": [body.count("(") for body in texts],
        "quotation": [any(mark in body for mark in "\"“'`") for body in texts],
        "question": [body.rstrip().endswith("?") for body in texts],
        "block_words": np.log1p(np.bincount(block, words)[block]),
        "heading_words": [len(one.heading.split()) for one in found],
    }


def _terms(matrix: TermMatrix, found: Sequence[Candidate], bags: Sequence[set[str]]) -> dict[str, Any]:
    n = len(found)
    ones, place = np.ones(n, np.float32), np.arange(n)
    real = np.array([bool(bag) for bag in bags])
    degree = matrix.dot(matrix.total(ones)) / max(int(real.sum()), 1)
    rank: NDArray[Any] = ones / n
    for _ in range(_ROUNDS):
        spread = matrix.dot(matrix.total(rank / np.maximum(degree, 1e-6)))
        rank = (1 - _DAMPING) / n + _DAMPING * spread / max(float(spread.sum()), 1e-9)
    section, block = np.array([one.section for one in found]), np.array([one.block for one in found])
    section_weight = np.zeros(n, np.float32)
    for start, end in pairwise(np.flatnonzero(np.diff(section, prepend=-1, append=-1)).tolist()):
        section_weight[start:end] = degree[start:end].mean()
    headings = {text: number for number, text in enumerate(dict.fromkeys(one.heading for one in found))}
    which = np.array([headings[one.heading] for one in found], np.int64)
    in_headings = [terms(text) for text in headings]
    seen: set[str] = set()
    fresh = np.zeros(n, np.float32)
    for number, bag in enumerate(bags):
        fresh[number] = len(bag - seen) / max(len(bag), 1)
        seen |= bag
    sizes = np.array([len(bag) for bag in bags], np.float32)
    recurrence = matrix.recurrence()
    later = recurrence.later / np.maximum(real.sum() - np.cumsum(real), 1)
    earlier = recurrence.earlier / np.maximum(np.cumsum(real) - real, 1)
    return {
        "degree": degree,
        "degree_before": np.concatenate([[0], degree[:-1]]),
        "degree_after": np.concatenate([degree[1:], [0]]),
        "lexrank": rank * n,
        "section_degree": matrix.grouped(section) / np.bincount(section)[section],
        "block_degree": matrix.grouped(block) / np.bincount(block)[block],
        "section_weight": section_weight,
        "centroid_sum": degree * np.sqrt(sizes),
        "frequent_mean": matrix.mean(matrix.frequency / max(n, 1)),
        "like_opening": _cosine(matrix, place < _OPENING),
        "like_closing": _cosine(matrix, place >= n - _OPENING),
        "like_heading": matrix.likeness(in_headings, which),
        "like_headings": matrix.dot(matrix.row(set().union(*in_headings))),
        "like_before": np.concatenate([[0], matrix.neighbours(1)[:-1]]),
        "new_terms": fresh,
        "later": later,
        "earlier": earlier,
        "later_more": later - earlier,
        "first_use": recurrence.first_use,
        "persists": recurrence.persists,
        "spread": recurrence.spread,
    }


def _cosine(matrix: TermMatrix, rows: NDArray[np.bool_]) -> Array:
    """Each sentence's cosine with the sum of some of them, [sentences]."""
    total = matrix.total(rows.astype(np.float32))
    return matrix.dot(total / np.float32(max(float(np.linalg.norm(total)), 1e-9)))


def _kind(
    found: Sequence[Candidate],
    usable: NDArray[np.bool_],
    words: Array,
    measures: Mapping[str, Any],
    cues: Mapping[str, Array],
) -> Array:
    n = len(found)
    rows = usable if usable.any() else np.ones(n, bool)
    values = {
        "sentences": math.log(max(int(usable.sum()), 1)),
        "words": math.log1p(float(words.sum())),
        "block_sentences": math.log1p(n / max(len({one.block for one in found}), 1)),
        "sections": len({one.section for one in found}) / n,
        "capitals": float(np.asarray(measures["capitals"])[rows].mean()),
    }
    shares = [float(cues[name][rows].mean()) for name in SHARES]
    return np.array([*shares, *(values[name] for name in KIND)], np.float32)
