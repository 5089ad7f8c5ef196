"""The document's own text as its summary: quotes in a style, or all of it as it is; each sentence cites itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from specextend_cli.documents.document import Document
from specextend_cli.models.wording import Style
from specextend_cli.summarize.events import Event, Text
from specextend_cli.summarize.grounds import Grounds
from specextend_cli.summarize.quoting import Quote
from specextend_cli.summarize.shape import Prescribed


def extract(quotes: Iterable[Quote], grounds: Grounds, style: Style) -> Iterator[Event]:
    """A summary of quotes in the document's order, told sentence by sentence."""
    form = Prescribed(style)
    part = -1
    for quote in quotes:
        delta = form.place(quote.text, topic=quote.draft != part)
        part = quote.draft
        yield Text(delta, True)
        yield from grounds.quote(delta, quote.passage, quote.instead)


def copy(document: Document, grounds: Grounds, style: Style) -> Iterator[Event]:
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
