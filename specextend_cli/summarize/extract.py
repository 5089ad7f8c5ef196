"""Extractive summaries: the document's own sentences, its own summary first, then the best by their scores."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from specextend_cli.documents.document import Document
from specextend_cli.humanize import format_count, format_many
from specextend_cli.summarize.citations import Citer, DocumentSentence
from specextend_cli.summarize.events import Event, Method, OwnPart, Plan, Stage, Warned
from specextend_cli.summarize.layout import BRIEF, Placed, QuoteLayout
from specextend_cli.summarize.ranking.candidates import candidates, speakers
from specextend_cli.summarize.ranking.score import gain, score
from specextend_cli.summarize.ranking.select import Choice, Selector
from specextend_cli.summarize.ranking.term_matrix import Array
from specextend_cli.summarize.request import Request
from specextend_cli.summarize.words import NAMES, count_words

_PARAGRAPH = 3  # sentences at least, before another section begins a new paragraph


class Extract:
    """The summary of a document by its own sentences, of about `words` words.

    A document that has no more is printed as it is. `method` and `own` say, after `run`, what was done: `own` is what
    the document's own summary gave.
    """

    method: Method
    chunk_summaries = ()

    def __init__(self, document: Document, request: Request, words: int) -> None:
        self.document, self.request, self.words = document, request, words
        self.sentences, size = candidates(document), count_words(document.text)
        self.plan = Plan(document.name, document.extraction.pages or 1, 0, (), 1, document.unit, words=size)
        self._places = [
            DocumentSentence(one.start, one.end, (document.pages_of(one.start, one.end) or (1,))[0])
            for one in self.sentences
        ]
        self.citer = Citer(document, self._places)
        self.own: OwnPart | None = None

    def run(self) -> Iterator[Event]:
        """Rank, choose, print."""
        if self.plan.words <= self.words:
            yield from self._verbatim()
            return
        yield Stage("ranking sentences")
        if (language := self._selector.language) != "en":
            why = "are ranked by fewer rules, which were fitted to English: important ones may be missing"
            yield Warned(f"sentences in {NAMES[language]} {why}")
        name, self.method = self.document.name, "extractive"
        if self.request.focus is not None and self._gain is None:
            what = "no sentence that can be quoted has a word of --focus"
            yield Warned(f"{name}: {what}, so the summary is of the whole document")
        chosen = self._select()
        if not chosen:
            self.method = "lead"
            chosen = self._selector.lead(self.words)
            yield Warned(f"{name} has no sentence that can be quoted by itself: these are its first ones")
        self.own = self._own(chosen)
        for placed, choice in zip(self._layout(chosen), chosen, strict=True):
            yield self.citer.quote(*placed, choice.sentence)

    def _verbatim(self) -> Iterator[Event]:
        """The document as it is: in a list one sentence a line, else with its own line breaks."""
        self.method = "verbatim"
        text, layout = self.document.text, QuoteLayout(self.request.style)
        end = self.sentences[0].start if self.sentences else 0
        for number, sentence in enumerate(self.sentences):
            own = text[sentence.start : sentence.end]
            placed = layout.place(own) if self.request.style == "bullets" else (text[end : sentence.start], own)
            yield self.citer.quote(*placed, number)
            end = sentence.end
        size, most = format_many(self.plan.words, "word"), format_count(self.words)
        yield Warned(f"{self.document.name} is printed as it is: it has {size}, and its summary may have {most}")

    def _select(self) -> list[Choice]:
        request = self.request
        most = BRIEF if request.style == "tldr" and not request.is_exact else None
        mark = (request.style == "bullets") + self._name_words  # words besides its own
        return self._selector.select(
            self._ranked[0], self.words, gain=self._gain, mark=mark, most=most, exact=request.is_exact
        )

    def _own(self, chosen: Sequence[Choice]) -> OwnPart | None:
        own = self._selector.own
        if own is None or self._gain is not None:
            return None
        pages = [self._places[one.sentence].page for one in chosen if own.sentences[one.sentence]]
        return OwnPart(own.name, (pages[0], pages[-1]), len(chosen) - len(pages)) if pages else None

    @cached_property
    def _ranked(self) -> tuple[Array, list[set[str]]]:
        return score(self.document.text, self.document.title, self.sentences)

    @cached_property
    def _names(self) -> tuple[str, ...]:
        """Who says each sentence of a conversation; () where the document is none."""
        return speakers(self.document.text, self.sentences)

    @cached_property
    def _selector(self) -> Selector:
        return Selector(self.document.text, self.sentences, self._ranked[1], conversation=bool(self._names))

    def _layout(self, chosen: Sequence[Choice]) -> Iterator[Placed]:
        """Each choice in the style that is asked for."""
        layout, since, before = QuoteLayout(self.request.style), 0, -1
        for choice in chosen:
            apart = since >= _PARAGRAPH and self.sentences[before].section != self.sentences[choice.sentence].section
            lead, text = layout.place(choice.text, apart=apart)
            yield Placed(lead + self._name(choice), text)
            since, before = 1 if apart else since + 1, choice.sentence

    def _name(self, choice: Choice) -> str:
        """What a list prints before what somebody says in a conversation, where the sentence does not name them."""
        name = self._names[choice.sentence] if self._names and self.request.style == "bullets" else ""
        return f"{name}: " if name and not choice.text.startswith(name) else ""

    @property
    def _name_words(self) -> int:
        """How many words such a name has, nearly."""
        sizes = [count_words(name) for name in self._names if name] if self.request.style == "bullets" else []
        return round(sum(sizes) / max(len(sizes), 1))

    @cached_property
    def _gain(self) -> NDArray[np.float64] | None:
        """What each sentence gains by its share of the focus, [sentences]; None without one that any of them has."""
        if self.request.focus is None:
            return None
        found = gain(self.request.focus, self.sentences, self._ranked[1], self._selector.usable)
        return found if found.any() else None
