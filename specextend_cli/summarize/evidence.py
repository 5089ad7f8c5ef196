"""Which sentences of a document support a sentence about it, and the citations and unsupported facts of a summary.

Two signals find evidence: shared words and the target's attention. Provenance, the document sentences that a chunk or a
chunk summary was made from, leads attention from level to level back to the document.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from specextend_cli.documents.document import Chunk, Document
from specextend_cli.summarize.events import Citation, Sentence, SentenceAttention
from specextend_cli.summarize.factcheck import FactSource, Unsupported
from specextend_cli.summarize.text.sentences import spans
from specextend_cli.summarize.text.terms import TfidfIndex

_MIN_LEXICAL = 0.15  # of a sentence's weight of words; a document sentence with less does not support it
_MIN_GAIN, _MIN_ATTENTION = 0.35, 0.8  # words that a further one must add, and its attention relative to the highest
_SURE = 0.25  # of the attention on the whole source: enough by itself, where words differ (another language, say)
_MOST = 3  # document sentences cited for one sentence


@dataclass(frozen=True, slots=True)
class DocumentSentence:
    """Characters [start, end) of the document, on `page` (or in that section)."""

    start: int
    end: int
    page: int


@dataclass(frozen=True, slots=True)
class SourceSpan:
    """Characters [start, end) of a text, and the document sentences they come from, by number, each with its share."""

    start: int
    end: int
    sentences: Mapping[int, float]


@dataclass(frozen=True)
class Provenance:
    """What a text was made from: its `spans` in order, and all document sentences that were read for it, `read`."""

    spans: tuple[SourceSpan, ...] = ()
    read: range = range(0)


def document_sentences(document: Document, chunks: Iterable[Chunk]) -> list[DocumentSentence]:
    """In order. None lies in two chunks, so that what a chunk consists of depends on its text alone."""
    starts = [page.start for page in document.pages]

    def page(at: int) -> int:
        return document.pages[max(bisect_right(starts, at) - 1, 0)].number if starts else 1

    return [
        DocumentSentence(chunk.start + start, chunk.start + end, page(chunk.start + start))
        for chunk in chunks
        for start, end in spans(document.text[chunk.start : chunk.end])
    ]


def provenance_of(chunk: Chunk, sentences: Sequence[DocumentSentence]) -> Provenance:
    """The provenance of a chunk's text: each of its sentences is one span."""
    read = range(*(bisect_left(sentences, at, key=lambda one: one.start) for at in (chunk.start, chunk.end)))
    own = ((sentences[i].start - chunk.start, sentences[i].end - chunk.start, {i: 1.0}) for i in read)
    return Provenance(tuple(SourceSpan(*one) for one in own), read)


def join_texts(parts: Sequence[tuple[str, Provenance]], gap: str) -> tuple[str, Provenance]:
    """Texts with a gap between them, and the provenance of the whole."""
    text, joined = "", list[SourceSpan]()
    for piece, own in parts:
        text += gap * bool(text)
        joined += [replace(one, start=len(text) + one.start, end=len(text) + one.end) for one in own.spans]
        text += piece
    return text, Provenance(tuple(joined), range(parts[0][1].read.start, parts[-1][1].read.stop))


@dataclass(frozen=True, slots=True)
class Evidence:
    """A document sentence by its number, and its scores: its share of the words, and its attention, each 0 to 1.

    `attention` is relative to the document sentence that got most of it; None where it was not measured.
    """

    sentence: int
    lexical: float
    attention: float | None
    score: float


class Citer:
    """Finds evidence among the sentences of one document. `trust` is the weight of attention, 0 to 1."""

    def __init__(self, text: str, sentences: Sequence[DocumentSentence], *, trust: float = 0.4) -> None:
        self.sentences = sentences
        self._text = text
        self._trust = trust

    def evidence(self, sentence: str, attention: Mapping[int, float], read: range | None = None) -> list[Evidence]:
        """The document sentence with the best score, then others that add words to it; none if nothing matches.

        `attention` is by document sentence, in any unit. Only what was `read` for the sentence can support it.
        """
        rest = weights = self.index.weights(sentence)
        most = max(attention.values(), default=0.0)
        sure = [i for i, share in attention.items() if share == most > 0 and share >= _SURE * sum(attention.values())]
        trust = self._trust if most > 0 else 0.0
        found: list[Evidence] = []
        while len(found) < _MOST:
            shares = self.index.shares(rest, read)
            attended = {i: attention.get(i, 0.0) / most if most > 0 else 0.0 for i in (*shares, *sure)}
            if found:
                cited = {self.sentences[one.sentence].page for one in found}
                rivals = [i for i, share in shares.items() if share >= _MIN_GAIN]
                rivals = [i for i in rivals if self.sentences[i].page not in cited]
                rivals = [i for i in rivals if most == 0 or attended[i] >= _MIN_ATTENTION]
            else:
                rivals = list({*sure, *(i for i, share in shares.items() if share >= _MIN_LEXICAL)})
            if not rivals:
                break
            fullest = max(shares.get(i, 0.0) for i in rivals) or 1.0
            best = max(rivals, key=lambda i: ((1 - trust) * shares.get(i, 0.0) / fullest + trust * attended[i], -i))
            absent = self.index.missing(weights, best)
            lexical = sum(weight for term, weight in weights.items() if term not in absent)
            score = (1 - trust) * lexical + trust * attended[best]
            found.append(Evidence(best, lexical, attended[best] if most > 0 else None, score))
            rest = {term: weight for term, weight in rest.items() if term in absent}
        return found

    def provenance(self, text: str, attention: Sequence[SentenceAttention], source: Provenance) -> Provenance:
        """The provenance of a generated text: the evidence of each of its sentences, in what its prompt had."""
        cited = []
        for start, end in spans(text):
            found = self.evidence(text[start:end], attended_sentences(start, end, attention, source), source.read)
            total = sum(one.score for one in found) or 1.0
            cited.append(SourceSpan(start, end, {one.sentence: one.score / total for one in found}))
        return Provenance(tuple(cited), source.read)

    @cached_property
    def index(self) -> TfidfIndex:
        """The document's sentences by their words."""
        return TfidfIndex([self._text[sentence.start : sentence.end] for sentence in self.sentences])


def attended_sentences(
    start: int, end: int, attention: Iterable[SentenceAttention], source: Provenance
) -> dict[int, float]:
    """Attention by document sentence while characters [start, end) of an answer, made from `source`, were generated."""
    sentences: dict[int, float] = defaultdict(float)
    for one in attention:
        if one.start < end and start < one.end:
            for segment, share in one.shares.items():
                for sentence, part in source.spans[segment].sentences.items():
                    sentences[sentence] += share * part
    return sentences


class EvidenceTracker:
    """Follows one document's summary. `citer` finds the evidence of its sentences, and of chunk summaries."""

    def __init__(self, document: Document, sentences: Sequence[DocumentSentence]) -> None:
        self.citer = Citer(document.text, sentences)
        self.sentences: list[Sentence] = []
        self._text = document.text
        self._labels = {page.number: page.label for page in document.pages}
        self._ocr = frozenset(document.extraction.ocr)

    def add(
        self, lead: str, text: str, written: tuple[int, int], attention: Iterable[SentenceAttention], source: Provenance
    ) -> Sentence:
        """The summary's next sentence, behind `lead`.

        It is characters `written` of the answer whose `attention` this is; `source` is what its prompt had.
        """
        attended = attended_sentences(*written, attention, source)
        evidence = self.citer.evidence(text, attended, source.read)
        return self._sentence(lead, text, evidence, tuple(self._source.unsupported(text)))

    def quote(self, lead: str, text: str, sentence: int) -> Sentence:
        """The summary's next sentence, which quotes a document sentence."""
        return self._sentence(lead, text, [Evidence(sentence, 1.0, None, 1.0)])

    def _sentence(
        self, lead: str, text: str, evidence: Iterable[Evidence], unsupported: tuple[Unsupported, ...] = ()
    ) -> Sentence:
        self.sentences.append(Sentence(lead, text, tuple(map(self._citation, evidence)), unsupported))
        return self.sentences[-1]

    @cached_property
    def _source(self) -> FactSource:
        return FactSource(self._text)

    def _citation(self, evidence: Evidence) -> Citation:
        sentence = self.citer.sentences[evidence.sentence]
        page = sentence.page
        attention = None if evidence.attention is None else round(evidence.attention, 3)
        scores = round(evidence.score, 3), round(evidence.lexical, 3), attention
        return Citation(page, sentence.start, sentence.end, *scores, self._labels.get(page, ""), page in self._ocr)
