"""What every sentence of a summary rests on, told as soon as the sentence is written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from specextend_cli.documents.document import Document
from specextend_cli.summarize.attribution import SentenceAttention
from specextend_cli.summarize.citing import Citer, Evidence, attended_sentences
from specextend_cli.summarize.events import Citation, Sentence
from specextend_cli.summarize.factcheck import FactSource
from specextend_cli.summarize.provenance import DocumentSentence, Provenance
from specextend_cli.summarize.sentences import spans


class EvidenceTracker:
    """Of one document's summary. `citer` says the same of notes."""

    def __init__(self, document: Document, passages: Sequence[DocumentSentence]) -> None:
        self.citer = Citer(document.text, passages)
        self.sentences: list[Sentence] = []
        self._source = FactSource(document.text)
        self._length = 0
        self._labels = {page.number: page.label for page in document.pages}
        self._ocr = frozenset(document.extraction.ocr)

    def add(
        self, delta: str, written: tuple[int, int], looks: Iterable[SentenceAttention], source: Provenance
    ) -> Iterator[Sentence]:
        """The next piece of the summary, whole sentences.

        It was `written` as those characters of the answer that `looks` are about.
        """
        looks = list(looks)
        for start, end in spans(delta):
            text, place = delta[start:end], self._length + start
            evidence = self.citer.evidence(text, attended_sentences(*written, looks, source), source.read)
            marked = self._source.unsupported(text)
            unsupported = tuple(replace(one, start=place + one.start, end=place + one.end) for one in marked)
            citations = tuple(self._citations(evidence))
            number = len(self.sentences) + 1
            sentence = Sentence(number, place, place + len(text), text, citations, unsupported)
            self.sentences.append(sentence)
            yield sentence
        self._length += len(delta)

    def quote(self, delta: str, passage: int, draft: str) -> Iterator[Sentence]:
        """The next piece of the summary, in which a passage stands in place of the sentence `draft`."""
        for start, end in spans(delta):
            citations = tuple(self._citations([Evidence(passage, 1.0, None, 1.0)]))
            number, place = len(self.sentences) + 1, self._length
            sentence = Sentence(number, place + start, place + end, delta[start:end], citations, (), draft)
            self.sentences.append(sentence)
            yield sentence
        self._length += len(delta)

    def _citations(self, evidence: Iterable[Evidence]) -> Iterator[Citation]:
        for one in evidence:
            passage = self.citer.passages[one.passage]
            looked = None if one.looked is None else round(one.looked, 3)
            scores = round(one.score, 3), round(one.lexical, 3), looked
            label = self._labels.get(passage.page, "")
            ocr = passage.page in self._ocr
            yield Citation(passage.page, passage.start, passage.end, *scores, label, ocr)
