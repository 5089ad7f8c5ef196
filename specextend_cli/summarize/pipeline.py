"""What every way to summarize a document shares; and the simplest one, which prints a short document as it is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator

from specextend_cli.documents.document import Chunk, Document
from specextend_cli.humanize import format_count, format_many
from specextend_cli.summarize.events import Event, Method, Plan, Warned
from specextend_cli.summarize.evidence import EvidenceTracker, document_sentences
from specextend_cli.summarize.layout import QuoteLayout
from specextend_cli.summarize.request import Request
from specextend_cli.summarize.text.words import count_words


class Pipeline(ABC):
    """One document's way to its summary of about `words` words.

    `method` says what is, or after `run` was, done, and `chunk_summaries` are those of the first level.
    """

    method: Method
    chunk_summaries: tuple[str, ...] = ()

    def __init__(self, document: Document, request: Request, words: int, plan: Plan, evidence: EvidenceTracker) -> None:
        self.document, self.request, self.words, self.plan, self.evidence = document, request, words, plan, evidence

    @abstractmethod
    def run(self) -> Iterator[Event]:
        """The events of the work and the summary."""


class Verbatim(Pipeline):
    """A document that has no more words than its summary is to have."""

    method = "verbatim"

    def __init__(self, document: Document, request: Request, words: int) -> None:
        whole = document_sentences(document, [Chunk(0, len(document.text), 0)])
        super().__init__(document, request, words, quoting_plan(document), EvidenceTracker(document, whole))

    def run(self) -> Iterator[Event]:
        """In a list one sentence a line, else with its own line breaks."""
        text, sentences = self.document.text, self.evidence.citer.sentences
        layout, end = QuoteLayout(self.request.style), sentences[0].start if sentences else 0
        for number, sentence in enumerate(sentences):
            own = text[sentence.start : sentence.end]
            placed = layout.place(own) if self.request.style == "bullets" else (text[end : sentence.start], own)
            yield self.evidence.quote(*placed, number)
            end = sentence.end
        size, most = format_many(self.plan.words, "word"), format_count(self.words)
        yield Warned(f"{self.document.name} is printed as it is: it has {size}, and its summary may have {most}")


def quoting_plan(document: Document) -> Plan:
    """The plan where no model reads anything."""
    pages = document.extraction.pages or 1
    return Plan(document.name, pages, 0, (), 1, document.unit, words=count_words(document.text))
