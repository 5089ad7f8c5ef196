"""The document's own text as its summary: quotes in a style, or all of it as it is; each sentence cites itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from specextend_cli.documents.document import Document
from specextend_cli.models.prompt_templates import Style
from specextend_cli.summarize.events import Event, Text
from specextend_cli.summarize.evidence import EvidenceTracker
from specextend_cli.summarize.extractive import Quote
from specextend_cli.summarize.formatting import Prescribed


def placed(quotes: Iterable[Quote], style: Style) -> Iterator[tuple[str, Quote]]:
    """Quotes in the document's order, each with the text that it adds to a summary in that style."""
    form = Prescribed(style)
    part = -1
    for quote in quotes:
        yield form.place(quote.text, topic=quote.draft != part), quote
        part = quote.draft


def extract(quotes: Iterable[Quote], grounds: EvidenceTracker, style: Style) -> Iterator[Event]:
    """A summary of quotes, told sentence by sentence."""
    for delta, quote in placed(quotes, style):
        yield Text(delta, True)
        yield from grounds.quote(delta, quote.passage, quote.instead)


def copy(document: Document, grounds: EvidenceTracker, style: Style) -> Iterator[Event]:
    """The whole text, in a style that makes a list one line a sentence, else with its own line breaks."""
    form = Prescribed(style)
    end = None
    for number, passage in enumerate(grounds.citer.passages):
        if form.mark:
            delta = form.place(document.text[passage.start : passage.end], topic=number == 0)
        else:
            delta = document.text[passage.start if end is None else end : passage.end]
        end = passage.end
        yield Text(delta, True)
        yield from grounds.quote(delta, number, "")
