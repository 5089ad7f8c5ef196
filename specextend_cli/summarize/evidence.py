"""The citations and unsupported facts of a summary, sentence by sentence, as it is written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from specextend_cli.documents.document import Document
from specextend_cli.summarize.attribution import SentenceAttention
from specextend_cli.summarize.citing import Citer, Evidence, attended_sentences
from specextend_cli.summarize.events import Citation, Sentence
from specextend_cli.summarize.factcheck import FactSource, Unsupported
from specextend_cli.summarize.provenance import DocumentSentence, Provenance
from specextend_cli.summarize.sentences import spans


class EvidenceTracker:
    """Follows one document's summary. `citer` finds the evidence of its sentences, and of chunk summaries."""

    def __init__(self, document: Document, sentences: Sequence[DocumentSentence]) -> None:
        self.citer = Citer(document.text, sentences)
        self.sentences: list[Sentence] = []
        self._source = FactSource(document.text)
        self._length = 0
        self._labels = {page.number: page.label for page in document.pages}
        self._ocr = frozenset(document.extraction.ocr)

    def add(
        self, delta: str, written: tuple[int, int], attention: Iterable[SentenceAttention], source: Provenance
    ) -> list[Sentence]:
        """The sentences of the next piece of the summary, whole ones.

        The piece is characters `written` of the answer whose `attention` this is; `source` is what its prompt had.
        """
        attention, added = list(attention), []
        for start, end in spans(delta):
            text, place = delta[start:end], self._length + start
            evidence = self.citer.evidence(text, attended_sentences(*written, attention, source), source.read)
            found = self._source.unsupported(text)
            unsupported = tuple(replace(one, start=place + one.start, end=place + one.end) for one in found)
            added.append(self._sentence(place, text, evidence, unsupported=unsupported))
        self._length += len(delta)
        return added

    def quote(self, delta: str, sentence: int, draft: str) -> list[Sentence]:
        """The sentences of the next piece, which quotes a document sentence in place of the sentence `draft`."""
        evidence = [Evidence(sentence, 1.0, None, 1.0)]
        added = [self._sentence(self._length + start, delta[start:end], evidence, draft) for start, end in spans(delta)]
        self._length += len(delta)
        return added

    def skip(self, delta: str) -> None:
        """The next piece of the summary is no sentence, but a heading of the document's own."""
        self._length += len(delta)

    def _sentence(
        self,
        place: int,
        text: str,
        evidence: Iterable[Evidence],
        draft: str = "",
        unsupported: tuple[Unsupported, ...] = (),
    ) -> Sentence:
        number, citations = len(self.sentences) + 1, tuple(self._citations(evidence))
        self.sentences.append(Sentence(number, place, place + len(text), text, citations, unsupported, draft))
        return self.sentences[-1]

    def _citations(self, evidence: Iterable[Evidence]) -> Iterator[Citation]:
        for one in evidence:
            sentence = self.citer.sentences[one.sentence]
            attention = None if one.attention is None else round(one.attention, 3)
            scores = round(one.score, 3), round(one.lexical, 3), attention
            label = self._labels.get(sentence.page, "")
            ocr = sentence.page in self._ocr
            yield Citation(sentence.page, sentence.start, sentence.end, *scores, label, ocr)
