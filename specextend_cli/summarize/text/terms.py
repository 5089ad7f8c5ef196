"""Matching of sentences by the words they share; rare words count more."""

from __future__ import annotations

import math
import re
import unicodedata
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

import regex

from specextend_cli.summarize.text.words import UNSPACED

_TERM = regex.compile(
    rf"(?P<run>[{UNSPACED}\p{{Hangul}}]+)|(?P<number>\d+(?:[.,]\d+)*)|[\p{{L}}\p{{M}}--[{UNSPACED}\p{{Hangul}}]]+",
    regex.V1,
)
_ASCII = re.compile(r"[a-z]+|\d+(?:[.,]\d+)*")  # the same for a text of ASCII, in a quarter of the time
_KNOWN = 1 << 14  # words whose form is kept
_GRAM = 2  # characters of a term in scripts without spaces, and in Korean, whose particles join words
_NUMBER = 2.0  # weight of a number relative to a word as rare: numbers rarely match by chance
_ENDING = re.compile(r"(?<=\w{3})(?:ing|ed|es|s|ly|e)$")
_POSSESSIVE = re.compile("['\N{RIGHT SINGLE QUOTATION MARK}]s\\b")


class _Folded(dict[int, str]):
    """Each character without its accents, found when it is first asked for."""

    def __missing__(self, code: int) -> str:
        parts = unicodedata.normalize("NFKD", chr(code))
        found = self[code] = "".join(part for part in parts if not unicodedata.combining(part))
        return found


_FOLDED = _Folded()


def without_accents(text: str) -> str:
    """The compatibility decomposition (NFKD) of `text` without combining marks.

    Characters are decomposed one by one, in linear time. Normalizing the text as a whole sorts the marks behind a
    letter, and a letter with 100,000 marks takes hours.
    """
    return text if text.isascii() else text.translate(_FOLDED)


def terms(text: str) -> set[str]:
    """The words and numbers of a text, without case, accents, common endings and separators of thousands.

    In scripts without spaces, every two characters in a row. Digits are those of ASCII.
    """
    return set(ordered_terms(text))


def ordered_terms(text: str) -> list[str]:
    """The same, each as often as the text has it, in its order."""
    plain = without_accents(text.casefold())
    plain = _POSSESSIVE.sub("", unicodedata.normalize("NFC", plain))
    return [_ascii_term(word) for word in _ASCII.findall(plain)] if plain.isascii() else list(_terms(plain))


@lru_cache(_KNOWN)
def _ascii_term(word: str) -> str:
    return word.replace(",", "") if word[0].isdigit() else _ENDING.sub("", word)


def _terms(plain: str) -> Iterator[str]:
    for match in _TERM.finditer(plain):
        if match["number"]:
            yield "".join(str(unicodedata.decimal(c, c)) for c in match[0].replace(",", ""))
        elif match["run"]:
            run = match[0]
            yield from (run[at : at + _GRAM] for at in range(max(len(run) - _GRAM + 1, 1)))
        else:
            yield _ENDING.sub("", match[0])


class TfidfIndex:
    """Passages of a source by the words in them."""

    def __init__(self, passages: Sequence[str]) -> None:
        self.count = len(passages)
        self._places: dict[str, list[int]] = defaultdict(list)
        for number, passage in enumerate(passages):
            for term in terms(passage):
                self._places[term].append(number)

    def weights(self, text: str) -> dict[str, float]:
        """The terms of `text` with their weights, which sum to 1: low for a term that every passage has."""
        rarity = {term: math.log1p(self.count / (len(self._places.get(term, ())) + 0.5)) for term in terms(text)}
        worth = {term: rare * (_NUMBER if term[0].isdigit() else 1.0) for term, rare in rarity.items()}
        total = sum(worth.values())
        return {term: value / total for term, value in worth.items()}

    def shares(self, weights: Mapping[str, float], within: range | None = None) -> dict[int, float]:
        """For every passage, of all or of those `within`, with any of the terms: the weight of those it has, 0 to 1."""
        found: dict[int, float] = defaultdict(float)
        for term, weight in weights.items():
            places = self._places.get(term, [])
            if within is not None:
                places = places[bisect_left(places, within.start) : bisect_left(places, within.stop)]
            for passage in places:
                found[passage] += weight
        # The order of terms is arbitrary, and sums depend on it: rounding makes equal shares equal.
        return {passage: round(share, 9) for passage, share in found.items()}

    def missing(self, weights: Mapping[str, float], passage: int) -> dict[str, float]:
        """Those terms that a passage does not have."""
        return {term: weight for term, weight in weights.items() if not self._has(passage, term)}

    def _has(self, passage: int, term: str) -> bool:
        places = self._places.get(term, [])
        at = bisect_left(places, passage)
        return at < len(places) and places[at] == passage
