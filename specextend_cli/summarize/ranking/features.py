"""What can be known about every sentence without a language model: an array of numbers for the ranker.

Centrality is that of continuous LexRank (Erkan and Radev, 2004): a sentence is central that shares rare words with many
others. Its power iteration runs on the sparse matrix of terms, so that its time grows with the number of words.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import regex
from numpy.typing import NDArray

from specextend_cli.summarize.ranking.candidates import Candidate
from specextend_cli.summarize.tfidf import terms
from specextend_cli.summarize.word_count import count_words

Array = NDArray[np.float32]

_CUES = {
    "we": r"\bwe\b",
    "found": r"\b(?:found|identified|reported|concluded|determined|show(?:s|ed)?|indicat\w+)\b",
    "recommend": r"\brecommend\w*|\bshould\b|\bmust\b",
    "this_document": r"\b[Tt]h(?:is|e) (?:report|paper|proposal|document|PEP|EIP|KEP|RFC|study|article|review"
    r"|enhancement|standard|specification|chapter|bill|act)\b",
    "propose": r"\b(?:propos\w+|introduc\w+|add(?:s|ed|ing)?|allow\w*|provid\w+|defin\w+|enabl\w+)\b",
    "aim": r"\b(?:purpose|goal|aim|objective|motivation|problem)\b",
    "contrast": r"\b(?:however|although|while|but|despite)\b",
    "cause": r"\b(?:because|therefore|thus|since|result\w*)\b",
    "example": r"\b(?:for example|e\.g\.|for instance|such as|example)\b",
    "method": r"\b(?:interview\w*|methodolog\w+|audit\w*|sampl\w+|survey\w*|analyz\w+|reviewed|obtained|accepted)\b",
    "see": r"\b(?:[Ss]ee|[Tt]able|[Ff]igure|[Aa]ppendix|[Cc]hapter|footnote)\b",
    "hedge": r"\b(?:may|might|could|would|can)\b",
    "future": r"\b(?:will|plan\w*|propose\w*)\b",
    "year": r"\b(?:19|20)\d\d\b",
    "number": r"\d",
    "money": r"\$|\bbillion|million|percent|%",
    "dependent_start": r"^(?:They|It|He|She|This|These|That|Those|Such|Their|Its|But|And|So|Also|However|For example"
    r"|In addition|Therefore|Thus)\b",
    "main": r"\b(?:main|major|key|important|significant\w*|primar\w+|overall|generally|critical)\b",
    "agency": r"\b(?:agenc\w+|officials?|department|Congress|federal)\b",
    "person": r"\b(?:I|my|you|your)\b",
    "code": r"`|\(\)|::|_\w|\w_",
    "link": r"http|\[\d|\]\(|\[#",
    "citation": r"\bet al|\(\d{4}\)|Act of",
    "opening": r"^(?:The|A|An|In|To|For|By|On|As)\b",
    "negation": r"\bnot\b|\bno\b|n't\b",
    "quantifier": r"\b(?:most|many|several|some|all)\b",
    "commas": r",[^,]*,[^,]*,",
    "semicolon": r"[;:]",
    "past": r"\b(?:was|were|had)\b",
    "present": r"\b(?:is|are|has|have)\b",
}
"""Words that summaries of English reports and proposals have more often, or less, than their documents."""
# fmt: off
MEASURES = (
    "place", "place_squared", "place_log", "first_tenth", "last_tenth", "opens_document", "opens_block",
    "block_place", "block_size", "section_place", "section_part", "item", "words_log", "words_short", "words_long",
    "digits", "capitals", "symbols", "parentheses", "quotation", "question", "degree", "lexrank", "section_degree",
    "centroid_sum", "frequent", "frequent_mean", "like_opening", "like_heading", "like_title", "like_before",
    "like_after", "new_terms", "degree_before", "degree_after", "section_weight",
)
# fmt: on
"""The names of the first columns."""
_PATTERNS = [regex.compile(pattern) for pattern in _CUES.values()]
_DIGIT, _CAPITAL = regex.compile(r"\d"), regex.compile(r"\b\p{Lu}")
_LOOSE = range(5, 81)  # words of what may be a sentence: features are compared within these
_ROUNDS = 10  # of LexRank's power iteration
_DAMPING = 0.85
_OPENING = 5  # sentences
_FREQUENT = 20  # terms


class TermMatrix:
    """Sentences by terms, TF-IDF, rows of length 1, sparse."""

    def __init__(self, bags: Sequence[set[str]]) -> None:
        self.rows = len(bags)
        counts = Counter(term for bag in bags for term in bag)
        self.columns = {term: number for number, term in enumerate(counts)}
        rarity = np.array([math.log((1 + self.rows) / (1 + n)) + 1 for n in counts.values()], np.float32)
        pairs = [(row, column) for row, bag in enumerate(bags) for column in sorted(map(self.columns.__getitem__, bag))]
        where = np.array(pairs, np.int64).reshape(-1, 2)
        self._row, self._column = where[:, 0], where[:, 1]
        self.rarity = rarity
        self.frequency = np.array(list(counts.values()), np.float32)
        value = rarity[self._column]
        norm = np.sqrt(np.bincount(self._row, value**2, self.rows))
        self._value = (value / np.maximum(norm, 1e-9)[self._row]).astype(np.float32)

    def total(self, weights: NDArray[Any]) -> Array:
        """The weighted sum of all rows, [terms]."""
        return np.bincount(self._column, self._value * weights[self._row], len(self.columns)).astype(np.float32)

    def dot(self, vector: Array) -> Array:
        """Each row's product with a vector of terms, [sentences]."""
        return np.bincount(self._row, self._value * vector[self._column], self.rows).astype(np.float32)

    def row(self, bag: set[str]) -> Array:
        """A vector of length 1 for other terms, [terms]."""
        vector = np.zeros(len(self.columns), np.float32)
        found = [self.columns[term] for term in bag if term in self.columns]
        vector[found] = self.rarity[found]
        vector /= max(float(np.linalg.norm(vector)), 1e-9)
        return vector

    def likeness(self, others: Sequence[set[str]], which: NDArray[Any]) -> Array:
        """Each row's product with a vector of length 1 for one of `others`, whose number `which` says, [sentences]."""
        keys, weights = [np.zeros(0, np.int64)], [np.zeros(0, np.float32)]
        for number, bag in enumerate(others):
            columns = np.array(sorted(self.columns[term] for term in bag if term in self.columns), np.int64)
            own = self.rarity[columns]
            keys.append(number * len(self.columns) + columns)
            weights.append(own / max(float(np.linalg.norm(own)), 1e-9))
        return self._matched(np.concatenate(keys), np.concatenate(weights), which[self._row])

    def grouped(self, groups: NDArray[Any]) -> Array:
        """Each row's product with the sum of all rows of its group, [sentences]."""
        _, own = np.unique(groups[self._row] * len(self.columns) + self._column, return_inverse=True)
        total = np.bincount(own, self._value, len(own)).astype(np.float32)
        return np.bincount(self._row, self._value * total[own], self.rows).astype(np.float32)

    def mean(self, which: NDArray[Any]) -> Array:
        """Each row's mean of a value of terms, [sentences]."""
        size = np.maximum(np.bincount(self._row, minlength=self.rows), 1)
        return (np.bincount(self._row, which[self._column], self.rows) / size).astype(np.float32)

    def neighbours(self, distance: int) -> Array:
        """Each row's product with the row `distance` after it, [sentences]."""
        size = len(self.columns)
        return self._matched(self._row * size + self._column, self._value, self._row + distance)

    def _matched(self, keys: NDArray[np.int64], values: Array, rows: NDArray[Any]) -> Array:
        """Each row's product with another matrix, whose row for each entry is in `rows`.

        `keys`, in order, say where the other matrix has its `values`: the row times the number of terms plus the term.
        """
        if not len(keys):
            return np.zeros(self.rows, np.float32)
        wanted = rows * len(self.columns) + self._column
        at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        products = np.where(keys[at] == wanted, self._value * values[at], 0.0)
        return np.bincount(self._row, products, self.rows).astype(np.float32)


def features(text: str, found: Sequence[Candidate], title: str = "") -> tuple[Array, list[set[str]]]:
    """Features of each candidate, [candidates, features], and each one's terms.

    Those of `_measures` come twice: as they are, and as standard scores within the document.
    """
    texts = [" ".join(text[one.start : one.end].split()) for one in found]
    prose = [one.kind in ("prose", "item") for one in found]
    bags = [terms(body) if ok else set() for body, ok in zip(texts, prose, strict=True)]
    measures = _measures(texts, found, bags, title)
    cues = np.array([[pattern.search(body) is not None for pattern in _PATTERNS] for body in texts], np.float32)
    usable = loose(text, found)
    scores = standard_scores(measures, usable)
    size = np.full((len(found), 1), math.log(max(usable.sum(), 1)))
    columns = (measures, cues.reshape(len(found), len(_PATTERNS)), scores, size)
    return np.concatenate(columns, 1, dtype=np.float32), bags


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


def _measures(texts: Sequence[str], found: Sequence[Candidate], bags: Sequence[set[str]], title: str) -> Array:
    n, matrix = len(found), TermMatrix(bags)
    place = np.arange(n, dtype=np.float32)
    ones = np.ones(n, np.float32)
    real = np.array([bool(bag) for bag in bags])
    degree = matrix.dot(matrix.total(ones)) / max(int(real.sum()), 1)
    rank: NDArray[Any] = ones / n
    for _ in range(_ROUNDS):
        spread = matrix.dot(matrix.total(rank / np.maximum(degree, 1e-6)))
        rank = (1 - _DAMPING) / n + _DAMPING * spread / max(float(spread.sum()), 1e-9)
    words = np.array([count_words(body) for body in texts], np.float32)
    section = np.array([one.section for one in found])
    first_of_section = np.searchsorted(section, section).astype(np.float32)
    size_of_section = np.bincount(section, minlength=int(section.max(initial=0)) + 1).astype(np.float32)
    blocks = np.array([one.block for one in found])
    size_of_block = np.bincount(blocks).astype(np.float32)[blocks]
    section_degree = matrix.grouped(section) / np.maximum(size_of_section[section], 1)
    section_weight = np.zeros(n, np.float32)
    bounds = np.flatnonzero(np.diff(section, prepend=-1, append=-1)).tolist()
    for start, end in pairwise(bounds):
        section_weight[start:end] = degree[start:end].mean()
    frequent = np.zeros(len(matrix.columns), np.float32)
    weight = matrix.frequency * matrix.rarity
    frequent[np.argsort(-weight, kind="stable")[:_FREQUENT]] = 1
    opening = matrix.total((place < _OPENING).astype(np.float32))
    opening /= max(float(np.linalg.norm(opening)), 1e-9)
    headings = {text: number for number, text in enumerate(dict.fromkeys(one.heading for one in found))}
    which = np.array([headings[one.heading] for one in found], np.int64)
    heading = matrix.likeness([terms(text) for text in headings], which)
    seen: set[str] = set()
    fresh = np.zeros(n, np.float32)
    for number, bag in enumerate(bags):
        fresh[number] = len(bag - seen) / max(len(bag), 1)
        seen |= bag
    letters = [max(len(body), 1) for body in texts]
    after = matrix.neighbours(1)
    columns = {
        "place": place / n,
        "place_squared": (place / n) ** 2,
        "place_log": np.log1p(place),
        "first_tenth": place < 0.1 * n,
        "last_tenth": place >= 0.9 * n,
        "opens_document": place < 3,
        "opens_block": [one.place == 0 for one in found],
        "block_place": np.log1p([one.place for one in found]),
        "block_size": np.log1p(size_of_block),
        "section_place": np.log1p(place - first_of_section),
        "section_part": (place - first_of_section) / np.maximum(size_of_section[section], 1),
        "item": [one.kind == "item" for one in found],
        "words_log": np.log1p(words),
        "words_short": words < 12,
        "words_long": np.maximum(words - 30, 0) / 10,
        "digits": [len(_DIGIT.findall(body)) / size for body, size in zip(texts, letters, strict=True)],
        "capitals": [len(_CAPITAL.findall(body)) / max(w, 1) for body, w in zip(texts, words, strict=True)],
        "symbols": [any(mark in body for mark in "%$€£") for body in texts],
        "parentheses": [body.count("(") for body in texts],
        "quotation": [any(mark in body for mark in "\"“'`") for body in texts],
        "question": [body.rstrip().endswith("?") for body in texts],
        "degree": degree,
        "lexrank": rank * n,
        "section_degree": section_degree,
        "centroid_sum": matrix.dot(matrix.total(ones)) * np.sqrt(words) / max(int(real.sum()), 1),
        "frequent": matrix.mean(frequent) * words,
        "frequent_mean": matrix.mean(matrix.frequency / max(n, 1)),
        "like_opening": matrix.dot(opening),
        "like_heading": heading,
        "like_title": matrix.dot(matrix.row(terms(title))),
        "like_before": np.concatenate([[0], after[:-1]]),
        "like_after": after,
        "new_terms": fresh,
        "degree_before": np.concatenate([[0], degree[:-1]]),
        "degree_after": np.concatenate([degree[1:], [0]]),
        "section_weight": section_weight,
    }
    return np.stack([np.asarray(columns[name], np.float32) for name in MEASURES], 1)
