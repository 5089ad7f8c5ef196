"""Extractive summaries: the document's own sentences, ranked by what they are and by what the target makes of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Literal

import numpy as np

from specextend_cli.documents.document import Document
from specextend_cli.models.prompt_templates import Style
from specextend_cli.summarize.events import (
    ChunkRead,
    Event,
    LevelWork,
    Method,
    Part,
    Plan,
    Preview,
    Rates,
    Text,
    Warned,
)
from specextend_cli.summarize.evidence import EvidenceTracker
from specextend_cli.summarize.formatting import BRIEF, QuoteLayout
from specextend_cli.summarize.generation_cache import GenerationCache, key
from specextend_cli.summarize.provenance import DocumentSentence
from specextend_cli.summarize.ranking.candidates import Candidate, candidates
from specextend_cli.summarize.ranking.features import features
from specextend_cli.summarize.ranking.focus import gain, relevance
from specextend_cli.summarize.ranking.ranker import Array, StateWeights, Trees
from specextend_cli.summarize.ranking.reading import ReadingPlan, read_states
from specextend_cli.summarize.ranking.selection import Choice, Selector
from specextend_cli.summarize.ranking.topics import Topics, topics
from specextend_cli.summarize.request import SummarySettings
from specextend_cli.summarize.word_count import count_words, words

if TYPE_CHECKING:
    from specextend_cli.engine.reader import Reader
    from specextend_cli.models.tokens import TextEncoder


@dataclass
class ScoredSentences:
    """What an extract by the trees alone and a guided summary share."""

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
        return Selector(self.document.text, self.sentences, self.bags)

    @cached_property
    def bags(self) -> list[set[str]]:
        """Each one's terms."""
        return self._features[1]

    @cached_property
    def topics(self) -> Topics:
        """The document's headings above them, as an outline prints these."""
        return topics(self.document.text, self.sentences)

    @cached_property
    def _features(self) -> tuple[Array, list[set[str]]]:
        return features(self.document.text, self.sentences, self.document.title)


_HEADED = 60  # words from which on an outline has room for the document's headings
_PARAGRAPH = 3  # sentences at least, before another section begins a new paragraph
_FAR = 0.12  # of the document: a gap that separates paragraphs where there are no sections


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


@dataclass
class Extractive:
    """The extractive summary of the document of `scored`. `guide` None: without a model.

    A text that has no more words than its summary is to have is printed as it is. `method` says, after `run`, what was
    done.
    """

    scored: ScoredSentences
    settings: SummarySettings
    guide: Guide | None = None
    rates: Rates | None = None
    method: Method = field(default="extractive", init=False)
    chunk_summaries: tuple[str, ...] = field(default=(), init=False)

    @property
    def document(self) -> Document:
        """What is summarized."""
        return self.scored.document

    @property
    def sentences(self) -> list[Candidate]:
        """All sentences of the document."""
        return self.scored.sentences

    @cached_property
    def evidence(self) -> EvidenceTracker:
        """Cites the quoted sentences."""
        found = self.sentences
        pages = [(self.document.pages_of(one.start, one.end) or (1,))[0] for one in found]
        places = [DocumentSentence(one.start, one.end, page) for one, page in zip(found, pages, strict=True)]
        return EvidenceTracker(self.document, places)

    @cached_property
    def _reading(self) -> ReadingPlan | None:
        if self.guide is None:
            return None
        return ReadingPlan(self.document.text, self.sentences, self.guide.encoder, self.guide.chunk)

    @cached_property
    def plan(self) -> Plan:
        """What will be read. Without a model, tokens are words."""
        document, reading = self.document, self._reading
        sizes = reading.sizes() if reading else (len(words(document.text)),)
        prefix = len(self.guide.prefix) if self.guide else 0
        work = (LevelWork(len(sizes), sum(sizes) + prefix * len(sizes), 0),) if reading else ()
        pages = len(document.pages) or 1
        counted: Literal["token", "word"] = "token" if reading else "word"
        return Plan(document.name, pages, sum(sizes), sizes, 1, document.unit, work, self.rates, counted)

    def preview(self) -> Iterator[Preview]:
        """What the trees alone choose, unless it is nothing or the whole document. Asks nothing of a guide's model."""
        if self._size > self._words and (chosen := self._bounded(partial(self._select, self.scored.scores))):
            yield Preview(self._text(chosen))

    def run(self) -> Iterator[Event]:
        """Read, rank, choose, print."""
        if self._size <= self._words:
            self.method = "verbatim"
            yield self._part(0, range(len(self.sentences)), 1, self.plan.tokens)
            yield from verbatim(self.document, self.evidence, self.settings.request.style, self._size)
            return
        scores = self.scored.scores
        if self.guide is None:
            yield self._part(0, range(len(self.sentences)), 1, self.plan.tokens)
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
        assert reading is not None
        sizes, parts = reading.sizes(), len(reading.chunks)
        keys = [self._key(guide, reading, chunk) for chunk in reading.chunks]
        scores = [_stored(guide.cache.get(name), len(chunk)) for name, chunk in zip(keys, reading.chunks, strict=True)]
        for i in [i for i in range(parts) if scores[i] is not None]:
            yield self._part(i, reading.chunks[i], parts, sizes[i])
            yield ChunkRead(i + 1, parts, reused=True)
        for i in [i for i in range(parts) if scores[i] is None]:
            chunk = reading.chunks[i]
            yield self._part(i, chunk, parts, sizes[i])
            reader = yield from guide.load()
            states = yield from read_states(reader, reading, chunk, guide.prefix)
            scores[i] = guide.weights.score(states)
            guide.cache.put(keys[i], json.dumps([round(float(score), 5) for score in _known(scores[i])]))
            yield ChunkRead(i + 1, parts)
        return np.concatenate([_known(score) for score in scores])

    def _key(self, guide: Guide, reading: ReadingPlan, chunk: range) -> str:
        # What is saved are scores: other weights, or states of another precision, give others.
        tokens = [token for i in chunk for token in (*reading.tokens[i], -1)]
        weights = [guide.weights.layer, guide.weights.bias, guide.weights.weights.tolist()]
        return key([*guide.prefix, *tokens], [guide.identity, "mean states", reading.size, weights])

    def _select(self, scores: Array, words: int) -> list[Choice]:
        request = self.settings.request
        exact = request.exact or self.settings.max_tokens is not None
        most = BRIEF if request.style == "tldr" and not request.exact else None
        mark = QuoteLayout(request.style).mark
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
        """What each choice adds to a text in the style that is asked for: a heading or "", and the sentence."""
        style = self.settings.request.style
        form, since, before = QuoteLayout(style), 0, -1
        least = 1 if style == "outline" else _PARAGRAPH
        for choice in chosen:
            other = before < 0 or (since >= least and self._apart(before, choice.sentence))
            heading = form.head(self._heading(choice)) if other and self._heading(choice) else ""
            yield heading, form.place(choice.text, topic=other and not heading), choice
            since, before = 1 if other else since + 1, choice.sentence

    def _text(self, chosen: Sequence[Choice]) -> str:
        return "".join(heading + delta for heading, delta, _ in self._layout(chosen))

    @cached_property
    def _topics(self) -> Topics | None:
        """The headings of an outline; None in other styles, in short ones, and where there are none."""
        found = self.scored.topics if self.settings.request.style == "outline" and self._words >= _HEADED else None
        return found if found and found.headings else None

    def _heading(self, choice: Choice) -> str:
        topic = -1 if self._topics is None else int(self._topics.above[choice.sentence])
        return "" if self._topics is None or topic < 0 else self._topics.headings[topic]

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
        found, document = self.sentences, self.document
        pages: tuple[int, ...] = ()
        if sentences:
            pages = document.pages_of(found[sentences[0]].start, found[sentences[-1]].end)
        first, last = (pages[0], pages[-1]) if pages else (1, 1)
        return Part(i + 1, parts, 1, 1, (first, last), tokens, True)

    @cached_property
    def _size(self) -> int:
        """The document's words; one at least."""
        return max(count_words(self.document.text), 1)

    @cached_property
    def _words(self) -> int:
        """How many words the summary is to have."""
        return self.settings.bounded_words(self._size, self.plan.tokens)


def verbatim(document: Document, evidence: EvidenceTracker, style: Style, size: int) -> Iterator[Event]:
    """The document of `size` words as it is: in a list style one sentence a line, else with its own line breaks."""
    form, sentences = QuoteLayout(style), evidence.citer.sentences
    end = sentences[0].start if sentences else 0
    for number, sentence in enumerate(sentences):
        if form.mark:
            delta = form.place(document.text[sentence.start : sentence.end], topic=number == 0)
        else:
            delta = document.text[end : sentence.end]
        end = sentence.end
        yield Text(delta, True)
        yield from evidence.quote(delta, number)
    yield Warned(f"{document.name} has no more words ({size}) than its summary is to have: it is printed as it is")


def _known(scores: Array | None) -> Array:
    assert scores is not None
    return scores


def _stored(text: str | None, sentences: int) -> Array | None:
    """Scores from the cache; None where they are not of so many sentences."""
    try:
        scores = np.array(json.loads(text or "null"), np.float32)
    except (ValueError, TypeError, RecursionError):
        return None
    return scores if scores.shape == (sentences,) and np.isfinite(scores).all() else None
