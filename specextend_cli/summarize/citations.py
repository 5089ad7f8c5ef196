"""The passages of a document behind each sentence of its summary, found by the words they share; rare ones count more.

Of a summary that was made from chunk summaries, the one that shares most words with a sentence tells its chunk.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from specextend_cli.documents.document import Chunk, Document
from specextend_cli.summarize.events import Citation, Sentence
from specextend_cli.summarize.facts import FactSource, Unsupported
from specextend_cli.summarize.sentences import spans
from specextend_cli.summarize.words import terms

_MIN_SHARE = 0.25  # of a sentence's weight of words; a document sentence with less does not support it
_MIN_GAIN = 0.35  # of that weight, which a further one must add
_MIN_TOLD = 0.5  # of that weight; a chunk summary with less does not tell the chunk
_MOST = 3  # document sentences cited for one sentence
_NUMBER = 2.0  # weight of a number relative to a word as rare: numbers rarely match by chance


@dataclass(frozen=True, slots=True)
class DocumentSentence:
    """Characters [start, end) of the document, on `page` (or in that section)."""

    start: int
    end: int
    page: int


@dataclass(frozen=True, slots=True)
class Origin:
    """The document sentences of one chunk, by number, and the terms of its summary; none where it was not made."""

    sentences: range
    summary: frozenset[str] = frozenset()


def document_sentences(document: Document, chunks: Iterable[Chunk]) -> list[DocumentSentence]:
    """In order. None lies in two chunks, so that what a chunk consists of depends on its text alone."""
    text = document.text
    found = ((one.start + a, one.start + b) for one in chunks for a, b in spans(text[one.start : one.end]))
    return [DocumentSentence(start, end, (document.pages_of(start, end) or (1,))[0]) for start, end in found]


def origin_of(chunk: Chunk, sentences: Sequence[DocumentSentence]) -> Origin:
    """The origin of a chunk's text."""
    return Origin(range(*(bisect_left(sentences, at, key=lambda one: one.start) for at in (chunk.start, chunk.end))))


def summarized(origins: tuple[Origin, ...], summary: str) -> tuple[Origin, ...]:
    """The origins of a summary of that text: a chunk summary tells its chunk, and so do those in a later one."""
    return (replace(origins[0], summary=frozenset(terms(summary))),) if len(origins) == 1 else origins


class SentenceIndex:
    """The sentences of a document by their words."""

    def __init__(self, text: str, sentences: Sequence[DocumentSentence]) -> None:
        self._sentences = sentences
        self._terms = [terms(text[one.start : one.end]) for one in sentences]
        self._places: dict[str, list[int]] = defaultdict(list)
        for number, found in enumerate(self._terms):
            for term in found:
                self._places[term].append(number)

    def support(self, sentence: str, origins: Sequence[Origin]) -> dict[int, float]:
        """Document sentences that support `sentence`, at most three, each with its share of the words, 0 to 1.

        Those of `origins`, in order, were read for it. The first one shares most; each further one is on another page
        and adds words. Where none shares enough, nothing is known to support it.
        """
        rest = weights = self.weights(sentence)
        read = range(origins[0].sentences.start, origins[-1].sentences.stop)
        within, least = self._told(weights, origins) or read, _MIN_SHARE
        found: dict[int, float] = {}
        while len(found) < _MOST:
            cited = {self._sentences[number].page for number in found}
            shares = self.shares(rest, within)
            rivals = [i for i in shares if shares[i] >= least and self._sentences[i].page not in cited]
            if not rivals:
                break
            best = max(rivals, key=lambda i: (shares[i], -i))
            found[best] = sum(weight for term, weight in weights.items() if term in self._terms[best])
            rest = {term: weight for term, weight in rest.items() if term not in self._terms[best]}
            within, least = read, _MIN_GAIN
        return found

    def weights(self, sentence: str) -> dict[str, float]:
        """The terms of a sentence with their weights, which sum to 1: low for a term of most document sentences."""
        count = len(self._sentences)
        rarity = {term: math.log1p(count / (len(self._places.get(term, ())) + 0.5)) for term in terms(sentence)}
        worth = {term: rare * (_NUMBER if term[0].isdigit() else 1.0) for term, rare in rarity.items()}
        total = sum(worth.values())
        return {term: value / total for term, value in worth.items()}

    def shares(self, weights: Mapping[str, float], within: range) -> dict[int, float]:
        """For every document sentence `within` that has any of the terms: the weight of those it has."""
        found: dict[int, float] = defaultdict(float)
        for term, weight in weights.items():
            places = self._places.get(term, [])
            for number in places[bisect_left(places, within.start) : bisect_left(places, within.stop)]:
                found[number] += weight
        # The order of terms is arbitrary, and sums depend on it: rounding makes equal shares equal.
        return {number: round(share, 9) for number, share in found.items()}

    def _told(self, weights: Mapping[str, float], origins: Sequence[Origin]) -> range | None:
        """The document sentences of the chunk whose summary shares most terms; None where that is little."""
        told = [sum(weight for term, weight in weights.items() if term in one.summary) for one in origins]
        most = max(told)
        return origins[told.index(most)].sentences if most >= _MIN_TOLD else None


class Citer:
    """Follows one document's summary, of whose sentences it finds the citations and the unsupported facts.

    `passages` are the document's sentences, `sentences` those of the summary so far.
    """

    def __init__(self, document: Document, passages: Sequence[DocumentSentence]) -> None:
        self.passages = passages
        self.sentences: list[Sentence] = []
        self._text = document.text
        self._labels = {page.number: page.label for page in document.pages}
        self._ocr = frozenset(document.extraction.ocr)

    def add(self, lead: str, text: str, origins: Sequence[Origin]) -> Sentence:
        """The summary's next sentence, behind `lead`, which was written from `origins`."""
        return self._sentence(lead, text, self._index.support(text, origins), self._source.unsupported(text))

    def quote(self, lead: str, text: str, passage: int) -> Sentence:
        """The summary's next sentence, which quotes a document sentence, by its number."""
        return self._sentence(lead, text, {passage: 1.0})

    def _sentence(
        self, lead: str, text: str, support: Mapping[int, float], unsupported: Sequence[Unsupported] = ()
    ) -> Sentence:
        citations = tuple(self._citation(*one) for one in support.items())
        self.sentences.append(Sentence(lead, text, citations, tuple(unsupported)))
        return self.sentences[-1]

    def _citation(self, number: int, score: float) -> Citation:
        one = self.passages[number]
        return Citation(
            one.page, one.start, one.end, round(score, 3), self._labels.get(one.page, ""), one.page in self._ocr
        )

    @cached_property
    def _index(self) -> SentenceIndex:
        return SentenceIndex(self._text, self.passages)

    @cached_property
    def _source(self) -> FactSource:
        return FactSource(self._text)
