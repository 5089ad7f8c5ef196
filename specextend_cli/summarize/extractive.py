"""Extractive summaries: the document's own sentences, ranked by what they are and by what the target makes of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING

import numpy as np

from specextend_cli.documents.document import Document
from specextend_cli.summarize.cache import GenerationCache, key
from specextend_cli.summarize.citations import Citer, DocumentSentence
from specextend_cli.summarize.events import ChunkRead, Event, LevelWork, Part, Plan, Preview, Rates, Text, Warned
from specextend_cli.summarize.formatting import BRIEF, QuoteLayout
from specextend_cli.summarize.pipeline import Pipeline
from specextend_cli.summarize.ranking.candidates import Candidate, candidates
from specextend_cli.summarize.ranking.features import features
from specextend_cli.summarize.ranking.gains import gain, relevance
from specextend_cli.summarize.ranking.ranker import Array, ReadingPlan, StateWeights, Trees, read_states
from specextend_cli.summarize.ranking.selection import Choice, Selector
from specextend_cli.summarize.ranking.text_kind import Kind, Speakers, kind_of, speakers
from specextend_cli.summarize.ranking.topics import Topics, topics
from specextend_cli.summarize.request import SummarySettings
from specextend_cli.summarize.text.language import NAMES
from specextend_cli.summarize.text.words import count_words

if TYPE_CHECKING:
    from specextend_cli.engine.reader import Reader
    from specextend_cli.models.tokens import TextEncoder


_HEADED = 60  # words from which on an outline has room for the document's headings
_PARAGRAPH = 3  # sentences at least, before another section begins a new paragraph
_FAR = 0.12  # of the document: a gap that separates paragraphs where there are no sections


@dataclass
class ScoredSentences:
    """The sentences of a document and their scores, for an extract by the trees alone and for a guided summary."""

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
    def kind(self) -> Kind:
        """What kind of text the document is."""
        return kind_of(self.said, self.sentences, self.document.text)

    @cached_property
    def said(self) -> Speakers:
        """Who says each of the sentences."""
        return speakers(self.document.text, self.sentences)

    @property
    def bags(self) -> list[set[str]]:
        """Each one's terms."""
        return self._features[1]

    @cached_property
    def topics(self) -> Topics:
        """The document's headings above them, as an outline prints these."""
        return topics(self.document.text, self.sentences)

    @cached_property
    def _features(self) -> tuple[Array, list[set[str]]]:
        return features(self.document.text, self.sentences)


@dataclass(frozen=True)
class Guide:
    """The target as a reader: `weights` score its states, behind the tokens `prefix` of its prompt.

    `identity` says which model it is, for the cache. `load` returns its first layers when they are needed.
    """

    weights: StateWeights
    encoder: TextEncoder
    prefix: Sequence[int]
    chunk: int
    identity: object
    cache: GenerationCache
    load: Callable[[], Generator[Event, None, Reader]]


class Extractive(Pipeline):
    """The extractive summary of the document of `scored`. `guide` None: without a model, and tokens are words."""

    def __init__(
        self, scored: ScoredSentences, settings: SummarySettings, guide: Guide | None = None, rates: Rates | None = None
    ) -> None:
        document, self.scored, self.sentences, self.guide = scored.document, scored, scored.sentences, guide
        words = count_words(document.text)
        sizes: tuple[int, ...] = (words,)
        work: tuple[LevelWork, ...] = ()
        if guide is not None:
            self._reading = ReadingPlan(document.text, self.sentences, guide.encoder, guide.chunk)
            sizes = self._reading.sizes()
            work = (LevelWork(len(sizes), sum(sizes) + len(guide.prefix) * len(sizes), 0),)
        name, pages, tokens = document.name, document.extraction.pages or 1, sum(sizes)
        plan = Plan(name, pages, tokens, sizes, 1, document.unit, work, rates, "token" if guide else "word", words)
        places = [
            DocumentSentence(one.start, one.end, (document.pages_of(one.start, one.end) or (1,))[0])
            for one in self.sentences
        ]
        super().__init__(document, settings, plan, Citer(document, places), scored.kind)

    def preview(self) -> Iterator[Preview]:
        """What the trees alone choose, unless it is nothing or the whole document. Asks nothing of a guide's model."""
        if self._size > self._words and (chosen := self._bounded(partial(self._select, self.scored.scores))):
            yield Preview(self._text(chosen))

    def run(self) -> Iterator[Event]:
        """Read, rank, choose, print."""
        whole = self._part(0, range(len(self.sentences)), 1, self.plan.tokens)
        if self._size <= self._words:
            yield whole
            yield from self._verbatim()
            return
        if (language := self.scored.selector.language) != "en":
            why = "are ranked by fewer rules, which were fitted to English: important ones may be missing"
            yield Warned(f"sentences in {NAMES[language]} {why}")
        scores, self.method = self.scored.scores, "extractive"
        if self.guide is None:
            yield whole
        else:
            states = yield from self._read(self.guide)
            scores = self.guide.weights.trees * scores + states
            self.method = "guided"
        if self._gain is not None and not self._gain.any():
            what = "no sentence that can be quoted has a word of --focus"
            yield Warned(f"{self.document.name}: {what}, so the summary is of the whole document")
        chosen = self._bounded(partial(self._select, scores))
        if not chosen:
            self.method = "lead"
            chosen = self._bounded(self.scored.selector.lead)
            yield Warned(f"{self.document.name} has no sentence that can be quoted by itself: these are its first ones")
        for heading, delta, choice in self._layout(chosen):
            if heading:
                yield Text(heading, True)
                self.evidence.skip(heading)
            yield Text(delta, True)
            yield from self.evidence.quote(delta, choice.sentence)

    def _read(self, guide: Guide) -> Generator[Event, None, Array]:
        """The target's score of every sentence, [sentences]. What an earlier run has read is not read again."""
        reading = self._reading
        sizes, parts = reading.sizes(), len(reading.chunks)
        keys = [self._key(guide, reading, chunk) for chunk in reading.chunks]
        stored = [_stored(guide.cache.get(name), len(chunk)) for name, chunk in zip(keys, reading.chunks, strict=True)]
        scores = {i: found for i, found in enumerate(stored) if found is not None}
        for i in list(scores):
            yield self._part(i, reading.chunks[i], parts, sizes[i])
            yield ChunkRead(i + 1, parts, reused=True)
        for i in sorted(set(range(parts)) - scores.keys()):
            chunk = reading.chunks[i]
            yield self._part(i, chunk, parts, sizes[i])
            reader = yield from guide.load()
            states = yield from read_states(reader, reading, chunk, guide.prefix)
            scores[i] = guide.weights.score(states)
            guide.cache.put(keys[i], json.dumps([round(float(score), 5) for score in scores[i]]))
            yield ChunkRead(i + 1, parts)
        return np.concatenate([scores[i] for i in range(parts)])

    def _key(self, guide: Guide, reading: ReadingPlan, chunk: range) -> str:
        # What is saved are scores: other weights, or states of another precision, give others.
        tokens = [token for i in chunk for token in (*reading.tokens[i], -1)]
        weights = [guide.weights.layer, guide.weights.bias, guide.weights.weights.tolist()]
        return key([*guide.prefix, *tokens], [guide.identity, "mean states", reading.size, weights])

    def _select(self, scores: Array, words: int) -> list[Choice]:
        request = self.settings.request
        exact = request.exact or self.settings.max_tokens is not None
        most = BRIEF if request.form == "tldr" and not request.exact else None
        mark = QuoteLayout(request.form).mark + self._name_words
        return self.scored.selector.select(
            scores, words, gain=self._gain, mark=mark, topics=self._topics, most=most, exact=exact
        )

    def _bounded(self, choose: Callable[[int], list[Choice]]) -> list[Choice]:
        """What is chosen for the number of words that is asked for, in no more tokens than are allowed."""
        most, wanted = self.settings.max_tokens, self._words
        count = self.guide.encoder.count if self.guide else count_words
        while True:
            chosen = choose(wanted)
            tokens = count(self._text(chosen))
            if most is None or tokens <= most or wanted == 1:
                return chosen
            wanted = max(wanted * most // (tokens + 1), 1)

    def _layout(self, chosen: Sequence[Choice]) -> Iterator[tuple[str, str, Choice]]:
        """What each choice adds to a text in the style that is asked for: a heading, a name or "", and the sentence."""
        style = self.settings.request.form
        form, since, before = QuoteLayout(style), 0, -1
        least = 1 if style == "outline" else _PARAGRAPH
        for choice in chosen:
            other = before < 0 or (since >= least and self._apart(before, choice.sentence))
            heading = form.head(self._heading(choice)) if other and self._heading(choice) else ""
            loose = self._topics is not None and self._topics.above[choice.sentence] < 0
            delta = form.place(choice.text, topic=loose or (other and not heading))
            if not heading and (name := self._name(choice)):
                heading, delta = f"{delta.removesuffix(choice.text)}{name}: ", choice.text
            yield heading, delta, choice
            since, before = 1 if other else since + 1, choice.sentence

    def _text(self, chosen: Sequence[Choice]) -> str:
        return "".join(heading + delta for heading, delta, _ in self._layout(chosen))

    def _name(self, choice: Choice) -> str:
        """The name that a list prints before what somebody says in a conversation, where the sentence has none."""
        name = self.scored.said.names[choice.sentence] if self.settings.request.form == "bullets" else ""
        return "" if choice.text.startswith(name) else name

    @cached_property
    def _name_words(self) -> int:
        """How many words such a name has, nearly."""
        if self.settings.request.form != "bullets" or not self.scored.said.is_conversation:
            return 0
        sizes = [count_words(name) for name in self.scored.said.names if name]
        return round(sum(sizes) / max(len(sizes), 1))

    @cached_property
    def _topics(self) -> Topics | None:
        """The headings of an outline; None in other styles, in short ones, and where there are none."""
        found = self.scored.topics if self.settings.request.form == "outline" and self._words >= _HEADED else None
        return found if found and found.headings else None

    def _heading(self, choice: Choice) -> str:
        if self._topics is None or (topic := int(self._topics.above[choice.sentence])) < 0:
            return ""
        return self._topics.headings[topic]

    @cached_property
    def _gain(self) -> Array | None:
        """What each sentence gains by its share of the focus, [sentences]; None without a focus."""
        focus = self.settings.request.focus
        if focus is None:
            return None
        return gain(relevance(focus, self.sentences, self.scored.bags), self.scored.selector.usable)

    def _apart(self, one: int, other: int) -> bool:
        """Whether two sentences belong to different parts of the document."""
        found = self.sentences
        if self._topics is not None:
            return bool(self._topics.above[one] != self._topics.above[other])
        if found[-1].section > 1:
            return found[one].section != found[other].section
        return other - one > _FAR * len(found)

    def _part(self, i: int, sentences: range, parts: int, tokens: int) -> Part:
        found = self.sentences
        pages = self._pages(found[sentences[0]].start, found[sentences[-1]].end)
        return Part(i + 1, parts, 1, 1, pages, tokens, True)


def _stored(text: str | None, sentences: int) -> Array | None:
    """Scores from the cache; None where they are not of so many sentences."""
    try:
        scores = np.array(json.loads(text or "null"), np.float32)
    except (ValueError, TypeError, RecursionError):
        return None
    return scores if scores.shape == (sentences,) and np.isfinite(scores).all() else None
