"""Extractive summaries: the document's own sentences, ranked by their features."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from specextend_cli.documents.document import Document
from specextend_cli.humanize import format_count, format_many
from specextend_cli.summarize.citations import Citer, DocumentSentence
from specextend_cli.summarize.events import Event, Method, Plan, Stage, Warned
from specextend_cli.summarize.layout import BRIEF, Placed, QuoteLayout, mark_words
from specextend_cli.summarize.ranking.candidates import Candidate, candidates
from specextend_cli.summarize.ranking.features import features
from specextend_cli.summarize.ranking.gains import gain, relevance
from specextend_cli.summarize.ranking.ranker import Array, Trees
from specextend_cli.summarize.ranking.selection import Choice, Selector
from specextend_cli.summarize.ranking.text_kind import Speakers, speakers
from specextend_cli.summarize.request import Request
from specextend_cli.summarize.text.language import NAMES
from specextend_cli.summarize.text.words import count_words

_PARAGRAPH = 3  # sentences at least, before another section begins a new paragraph
_FAR = 0.12  # of the document: a gap that separates paragraphs where there are no sections


@dataclass
class ScoredSentences:
    """The sentences of a document and their scores."""

    document: Document
    trees: Trees

    @cached_property
    def sentences(self) -> list[Candidate]:
        """All sentences of the document."""
        return candidates(self.document)

    @cached_property
    def scores(self) -> Array:
        """The trees' score of each, [sentences]. ModelError where the trees were fitted to other features."""
        return self.trees.predict(self._features[0])

    @cached_property
    def selector(self) -> Selector:
        """What chooses among them."""
        talk = self.said.is_conversation
        return Selector(self.document.text, self.sentences, self.bags, conversation=talk)

    @cached_property
    def said(self) -> Speakers:
        """Who says each of the sentences."""
        return speakers(self.document.text, self.sentences)

    @property
    def bags(self) -> list[set[str]]:
        """Each one's terms."""
        return self._features[1]

    @cached_property
    def _features(self) -> tuple[Array, list[set[str]]]:
        return features(self.document.text, self.sentences)


class Extractive:
    """The summary of the document of `scored` by its own sentences, of about `words` words.

    A document that has no more is printed as it is. `method` says, after `run`, what was done.
    """

    method: Method
    chunk_summaries = ()

    def __init__(self, scored: ScoredSentences, request: Request, words: int) -> None:
        document, self.scored, self.request, self.words = scored.document, scored, request, words
        self.document, self.sentences, size = document, scored.sentences, count_words(document.text)
        self.plan = Plan(document.name, document.extraction.pages or 1, 0, (), 1, document.unit, words=size)
        places = [
            DocumentSentence(one.start, one.end, (document.pages_of(one.start, one.end) or (1,))[0])
            for one in self.sentences
        ]
        self.citer = Citer(document, places)

    def run(self) -> Iterator[Event]:
        """Rank, choose, print."""
        if self.plan.words <= self.words:
            yield from self._verbatim()
            return
        yield Stage("ranking sentences")
        if (language := self.scored.selector.language) != "en":
            why = "are ranked by fewer rules, which were fitted to English: important ones may be missing"
            yield Warned(f"sentences in {NAMES[language]} {why}")
        name, self.method = self.document.name, "extractive"
        if self._gain is not None and not self._gain.any():
            what = "no sentence that can be quoted has a word of --focus"
            yield Warned(f"{name}: {what}, so the summary is of the whole document")
        chosen = self._select()
        if not chosen:
            self.method = "lead"
            chosen = self.scored.selector.lead(self.words)
            yield Warned(f"{name} has no sentence that can be quoted by itself: these are its first ones")
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
        mark = mark_words(request.style) + self._name_words
        return self.scored.selector.select(
            self.scored.scores, self.words, gain=self._gain, mark=mark, most=most, exact=request.is_exact
        )

    def _layout(self, chosen: Sequence[Choice]) -> Iterator[Placed]:
        """Each choice in the style that is asked for."""
        layout, since, before = QuoteLayout(self.request.style), 0, -1
        for choice in chosen:
            apart = since >= _PARAGRAPH and self._are_apart(before, choice.sentence)
            lead, text = layout.place(choice.text, apart=apart)
            yield Placed(lead + self._name(choice), text)
            since, before = 1 if apart else since + 1, choice.sentence

    def _name(self, choice: Choice) -> str:
        """What a list prints before what somebody says in a conversation, where the sentence does not name them."""
        name = self.scored.said.names[choice.sentence] if self.request.style == "bullets" else ""
        return f"{name}: " if name and not choice.text.startswith(name) else ""

    @cached_property
    def _name_words(self) -> int:
        """How many words such a name has, nearly."""
        if self.request.style != "bullets" or not self.scored.said.is_conversation:
            return 0
        sizes = [count_words(name) for name in self.scored.said.names if name]
        return round(sum(sizes) / max(len(sizes), 1))

    @cached_property
    def _gain(self) -> Array | None:
        """What each sentence gains by its share of the focus, [sentences]; None without a focus."""
        if self.request.focus is None:
            return None
        shares = relevance(self.request.focus, self.sentences, self.scored.bags)
        return gain(shares, self.scored.selector.usable)

    def _are_apart(self, one: int, other: int) -> bool:
        """Whether two sentences belong to different parts of the document."""
        found = self.sentences
        if found[-1].section > 1:
            return found[one].section != found[other].section
        return other - one > _FAR * len(found)
