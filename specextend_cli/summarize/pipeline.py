"""What both ways to summarize a document share: its plan, evidence and length, and short documents as they are."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator

from specextend_cli.documents.document import Document
from specextend_cli.humanize import format_count, format_many
from specextend_cli.summarize.events import Event, Method, Plan, Warned
from specextend_cli.summarize.evidence import EvidenceTracker
from specextend_cli.summarize.layout import QuoteLayout
from specextend_cli.summarize.request import Request


class Pipeline(ABC):
    """One document's way to its summary of about `words` words.

    A text that has no more words is printed as it is. `method` says, after `run`, what was done, and `chunk_summaries`
    are those of the first level.
    """

    method: Method

    def __init__(self, document: Document, request: Request, plan: Plan, words: int, evidence: EvidenceTracker) -> None:
        self.document, self.request, self.plan, self.words, self.evidence = document, request, plan, words, evidence
        self.chunk_summaries: tuple[str, ...] = ()

    @abstractmethod
    def run(self) -> Iterator[Event]:
        """The events of the work and the summary."""

    def _verbatim(self) -> Iterator[Event]:
        """The document as it is: in a list one sentence a line, else with its own line breaks."""
        self.method = "verbatim"
        text, sentences = self.document.text, self.evidence.citer.sentences
        layout, end = QuoteLayout(self.request.style), sentences[0].start if sentences else 0
        for number, sentence in enumerate(sentences):
            own = text[sentence.start : sentence.end]
            placed = layout.place(own) if self.request.style == "bullets" else (text[end : sentence.start], own)
            yield self.evidence.quote(*placed, number)
            end = sentence.end
        size, most = format_many(self.plan.words, "word"), format_count(self.words)
        yield Warned(f"{self.document.name} is printed as it is: it has {size}, and its summary may have {most}")

    def _pages(self, start: int, end: int) -> tuple[int, int]:
        """The first and last page of characters [start, end)."""
        pages = self.document.pages_of(start, end) or (1,)
        return pages[0], pages[-1]
