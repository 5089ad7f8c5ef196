"""What every way to summarize a document shares: its plan, evidence and length, and short documents as they are."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator

from specextend_cli.documents.document import Document
from specextend_cli.humanize import format_count, format_many
from specextend_cli.summarize.citations import Citer
from specextend_cli.summarize.events import Event, Method, Plan, Text, Warned
from specextend_cli.summarize.formatting import QuoteLayout
from specextend_cli.summarize.ranking.text_kind import Kind
from specextend_cli.summarize.request import SummarySettings
from specextend_cli.summarize.text.words import count_words


class Pipeline(ABC):
    """One document's way to its summary.

    A text that has no more words than its summary is to have is printed as it is. Style and length go by the document's
    `kind` where none is asked for. `method` says, after `run`, what was
    done, and `chunk_summaries` are those of the first level.
    """

    method: Method

    def __init__(
        self,
        document: Document,
        settings: SummarySettings,
        plan: Plan,
        evidence: Citer,
        kind: Kind = "text",
    ) -> None:
        self.document = document
        self.settings = settings.suited(kind)
        self.kind = kind
        self.plan = plan
        self.evidence = evidence
        self.chunk_summaries: tuple[str, ...] = ()
        self._size = max(count_words(document.text), 1)
        self._words = self.settings.bounded_words(self._size, plan.tokens)  # that the summary is to have

    @abstractmethod
    def run(self) -> Iterator[Event]:
        """The events of the work and the summary."""

    def _verbatim(self) -> Iterator[Event]:
        """The document as it is: in a list style one sentence a line, else with its own line breaks."""
        self.method = "verbatim"
        document, sentences = self.document, self.evidence.passages
        form = QuoteLayout(self.settings.request.form)
        end = sentences[0].start if sentences else 0
        for number, sentence in enumerate(sentences):
            if form.mark:
                delta = form.place(document.text[sentence.start : sentence.end], topic=number == 0)
            else:
                delta = document.text[end : sentence.end]
            end = sentence.end
            yield Text(delta, True)
            yield from self.evidence.quote(delta, number)
        size, most = format_many(self._size, "word"), format_count(self._words)
        yield Warned(f"{document.name} is printed as it is: it has {size}, and its summary may have {most}")

    def _pages(self, start: int, end: int) -> tuple[int, int]:
        """The first and last page of characters [start, end)."""
        pages = self.document.pages_of(start, end) or (1,)
        return pages[0], pages[-1]
