"""Which sentences of a source say what a sentence says: the words they share, rare ones counting more."""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping, Sequence

from specextend_cli.summarize.folding import without_accents

_TERM = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|\d+(?:[.,]\d+)*|[^\W\d_]+")
_NUMBER = 2.0  # what a number counts for, beside a word as rare: it is seldom there by chance
_ENDING = re.compile(r"(?<=\w{3})(?:ing|ed|es|s|ly|e)$")
_POSSESSIVE = re.compile("['\N{RIGHT SINGLE QUOTATION MARK}]s\\b")


def terms(text: str) -> set[str]:
    """The words and numbers of a text, without case, accents, common endings and separators of thousands."""
    plain = without_accents(text.casefold())
    return {_ENDING.sub("", term.replace(",", "")) for term in _TERM.findall(_POSSESSIVE.sub("", plain))}


class Index:
    """Passages of a source by the words in them."""

    def __init__(self, passages: Sequence[str]) -> None:
        self.count = len(passages)
        self._places: dict[str, list[int]] = defaultdict(list)
        for number, passage in enumerate(passages):
            for term in terms(passage):
                self._places[term].append(number)

    def weights(self, text: str) -> dict[str, float]:
        """The terms of `text`, each with what finding it is worth: little where every passage has it. They sum to 1."""
        worth = {term: self._rarity(term) * (_NUMBER if term[0].isdigit() else 1.0) for term in terms(text)}
        total = sum(worth.values())
        return {term: value / total for term, value in worth.items()}

    def _rarity(self, term: str) -> float:
        return math.log1p(self.count / (len(self._places.get(term, ())) + 0.5))

    def shares(self, weights: Mapping[str, float], within: range | None = None) -> dict[int, float]:
        """For every passage with any of the terms, the weight of those it has, 0 to 1.

        `within`: of these passages only, at the cost of these only.
        """
        found: dict[int, float] = defaultdict(float)
        for term, weight in weights.items():
            places = self._places.get(term, [])
            if within is not None:
                places = places[bisect_left(places, within.start) : bisect_left(places, within.stop)]
            for passage in places:
                found[passage] += weight
        return found

    def share(self, weights: Mapping[str, float], passage: int) -> float:
        """The weight of those terms that one passage has, 0 to 1."""
        return sum(weight for term, weight in weights.items() if self._has(passage, term))

    def missing(self, weights: Mapping[str, float], passage: int) -> dict[str, float]:
        """Those terms that a passage does not have."""
        return {term: weight for term, weight in weights.items() if not self._has(passage, term)}

    def _has(self, passage: int, term: str) -> bool:
        places = self._places.get(term, [])
        at = bisect_left(places, passage)
        return at < len(places) and places[at] == passage
