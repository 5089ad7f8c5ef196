"""Map-reduce: notes on every chunk, notes on notes until they fit, and the summary of what is left.

A document that fits the preset's chunk is summarized in one pass. Every token of its text is in exactly one first-level
prompt.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from specextend_cli.documents.document import Document
from specextend_cli.models.preset import Preset
from specextend_cli.summarize.attribution import SentenceAttention
from specextend_cli.summarize.cached_generator import CachedGenerator, Prompt
from specextend_cli.summarize.events import Event, Method, Part, Text, Warned
from specextend_cli.summarize.evidence import EvidenceTracker
from specextend_cli.summarize.extractive import Draft, SentenceSelector
from specextend_cli.summarize.extracts import copy, extract, placed
from specextend_cli.summarize.formatting import BRIEF, Prescribed, shape
from specextend_cli.summarize.planning import Work, pack
from specextend_cli.summarize.prompt_builder import PromptBuilder
from specextend_cli.summarize.provenance import Provenance, joined, material
from specextend_cli.summarize.request import SHARE, SLACK, WORDS_PER_TOKEN, SummaryRequest, usual_words
from specextend_cli.summarize.sentences import spans, split
from specextend_cli.summarize.word_count import count_words

_OVER = 0.1  # of the words asked for, which the target's sentences may take beyond them
_MOST_TOKENS = 4.0  # of a word: scripts that a tokenizer hardly knows have more
_TO_END = 24  # tokens, to end a sentence with


@dataclass(frozen=True)
class Note:
    """A text, the pages it is about, its size in target tokens, and the passages that it comes from."""

    text: str
    pages: tuple[int, int]
    tokens: int
    material: Provenance


class _Room:
    """Words that the target may still write where a number of them is asked for."""

    def __init__(self, words: int, mark: int) -> None:
        self._words = words
        self._mark = mark  # words of every sentence besides its own
        self._written = 0
        self._allowed = 0.0
        self._full = False

    def open(self, part: int, parts: int) -> None:
        """A part begins, which may use what earlier ones left."""
        self._allowed = self._words * part / parts * (1 + _OVER)
        self._full = False

    def takes(self, sentence: str) -> bool:
        """Whether a sentence still has room; the first of all always has, and after one that has none, none has."""
        size = count_words(sentence) + self._mark
        self._full = self._full or (0 < self._allowed < self._written + size and self._written > 0)
        self._written += 0 if self._full else size
        return not self._full


@dataclass
class MapReduce:
    """One document's way through the levels. `notes` receives the first level's, `grounds` what sentences rest on.

    In extractive mode, what is written of the summary is a draft, and sentences of the document stand in
    its place. Who asks with a template of their own gets what the target makes of it. A text that has no more words
    than its summary is to have is not summarized. `method` says, after `run`, which of these it was.
    """

    document: Document
    work: Work
    preset: Preset
    request: SummaryRequest
    max_tokens: int | None
    prompter: PromptBuilder
    answers: CachedGenerator
    grounds: EvidenceTracker
    notes: list[Note] = field(default_factory=list)
    method: Method = field(default="abstractive", init=False)

    def run(self) -> Iterator[Event]:
        """Map every chunk, then reduce until the preset's number of parts can be written from what is left."""
        document, work, window = self.document, self.work, self.preset.window
        if not self.request.needs_writing and self._size <= self._words:
            yield from self._copied()
            return
        found, levels = self.grounds.citer.passages, work.plan.levels
        sources = [
            Note(document.text[c.start : c.end], _page_range(document, c.start, c.end), c.tokens, material(found, c))
            for c in work.chunks
        ]
        template, level = "map", 1
        while len(sources) > window.summary_parts:
            parts = [
                Part(number, len(sources), level, max(levels, level + 1), source.pages, source.tokens, False)
                for number, source in enumerate(sources, 1)
            ]
            questions = [self._ask_note(template, *pair) for pair in zip(sources, parts, strict=True)]
            yield self.answers.begin(questions)
            answers = yield from self.answers.notes(questions)
            count = self.prompter.encoder.count
            notes = [
                Note(
                    answer.text,
                    source.pages,
                    count(answer.text),
                    self.grounds.citer.material(answer.text, answer.attention, source.material),
                )
                for answer, source in zip(answers, sources, strict=True)
            ]
            if level == 1:
                self.notes.extend(notes)
            groups = pack([note.tokens for note in notes], window.chunk, window.summary_parts)
            sources = [self._join([notes[i] for i in group]) for group in groups]
            template, level = "merge", level + 1
        template = "single" if level == 1 else "reduce"
        quoted, room = self.preset.mode == "extractive", _Room(self._words, Prescribed(self.request.style).mark)
        finals: list[Prompt] = []
        for number, source in enumerate(sources, 1):
            part = Part(number, len(sources), level, level, source.pages, source.tokens, True)
            question = self._ask_final(template, source, part, max(self._words // len(sources), 1))
            finals.append(replace(question, shown=not quoted))
        yield self.answers.begin(finals)
        drafts: list[Draft] = []
        for question, source in zip(finals, sources, strict=True):
            if quoted:
                answer = yield from self.answers.one(question)
                said = [answer.text[start:end] for start, end in spans(answer.text)]
                drafts.append(Draft(said, source.material.read))
            else:
                room.open(question.part.number, len(sources))
                yield from self._final(question, source, room)
        if quoted:
            yield from self._quoted(drafts)

    def _copied(self) -> Iterator[Event]:
        """The document as it is."""
        document, chunks = self.document, self.work.chunks
        self.method = "verbatim"
        for number, c in enumerate(chunks, 1):
            yield Part(number, len(chunks), 1, 1, _page_range(document, c.start, c.end), c.tokens, True)
        yield from copy(document, self.grounds, self.request.style)
        yield Warned(
            f"{document.name} has no more words ({self._size}) than its summary is to have: it is printed as it is"
        )

    def _quoted(self, drafts: Sequence[Draft]) -> Iterator[Event]:
        """Sentences of the document in place of drafts."""
        style, words = self.request.style, self._words
        quoter = SentenceSelector(self.document.text, self.grounds.citer.passages, self.grounds.citer.index)
        exact = self.request.exact or self.max_tokens is not None
        while True:
            quotes = quoter.quotes(
                drafts,
                words,
                usual=usual_words(self.preset.window, self._size),
                exact=exact,
                mark=Prescribed(style).mark,
                most=BRIEF if style == "tldr" and not exact else None,
            )
            tokens = self.prompter.encoder.count("".join(delta for delta, _ in placed(quotes.chosen, style)))
            if self.max_tokens is None or tokens <= self.max_tokens or words == 1:
                break
            words = max(words * self.max_tokens // (tokens + 1), 1)
        yield from extract(quotes.chosen, self.grounds, style)
        self.method = "extractive" if quotes.pointed else "lead"
        if not quotes.pointed:
            yield Warned(
                f"what the model wrote about {self.document.name} points to no sentence there: these are its first ones"
            )

    def _ask_note(self, template: str, source: Note, part: Part) -> Prompt:
        limit = self._limit(self.preset.window.chunk_summary_tokens, source.tokens)
        return self._ask(template, self._values(source, part, self._note_words), source, part, limit)

    def _ask_final(self, template: str, source: Note, part: Part, words: int) -> Prompt:
        window = self.preset.window
        most = self.request.room(window.summary_tokens) // part.parts
        if self.preset.mode == "extractive":
            # A draft of a few words leads nowhere, however short the summary is to be.
            tokens = max(min(most, int(words / WORDS_PER_TOKEN * SLACK)), window.chunk_summary_tokens)
        else:
            each = min(max(self.work.plan.tokens / self._size, 1 / WORDS_PER_TOKEN), _MOST_TOKENS)
            tokens = min(most, int(words * each * SLACK) + _TO_END)
        limit = self._limit(tokens, source.tokens)
        return replace(self._ask(template, self._values(source, part, words), source, part, limit), shown=True)

    def _ask(self, template: str, values: dict[str, object], source: Note, part: Part, limit: int) -> Prompt:
        prompt = self.prompter.prompt(template, values, source.text)
        starts = self.prompter.segment_starts(
            template, values, source.text, [origin.start for origin in source.material.origins]
        )
        return Prompt(part, prompt, limit, starts, self.prompter.shared(template, values))

    def _final(self, question: Prompt, source: Note, room: _Room) -> Iterator[Event]:
        """A part of the summary in its shape: each sentence, then what it rests on."""
        exact = self.request.exact
        form = shape(self.request.style, question.part.number, question.part.parts, brief=not exact)
        gap = form.gap if self.grounds.sentences else ""
        attention: list[SentenceAttention] = []
        begin = end = 0  # of what was written since the last sentence in shape
        for event in self.answers.one(question):
            if not isinstance(event, Text):
                yield event
            else:
                attention += event.attention
                for sentence in split(event.delta):
                    end += len(sentence)
                    if exact and not room.takes(sentence):
                        continue
                    if delta := form.feed(sentence):
                        yield Text(gap + delta, True)
                        yield from self.grounds.add(gap + delta, (begin, end), attention, source.material)
                        gap, begin = "", end

    @property
    def _note_words(self) -> int:
        return int(self.preset.window.chunk_summary_tokens * WORDS_PER_TOKEN * SHARE)

    @cached_property
    def _size(self) -> int:
        """The document's words; one at least."""
        return max(count_words(self.document.text), 1)

    @cached_property
    def _words(self) -> int:
        """How long the summary is to be: what the user wants, else the preset's length, a third of a short text."""
        words = self.request.words(usual_words(self.preset.window, self._size))
        if self.max_tokens is None:
            return words
        return max(min(words, int(self.max_tokens * self._size / max(self.work.plan.tokens, 1))), 1)

    def _limit(self, tokens: int, source_tokens: int) -> int:
        """Most new tokens of a text: always fewer than what it summarizes has."""
        wanted = min(tokens, self.max_tokens or tokens)
        return max(min(wanted, source_tokens - 1), 1)

    def _values(self, source: Note, part: Part, words: int) -> dict[str, object]:
        return {
            "title": self.document.name,
            "words": words,
            "pages": _dash(source.pages),
            "part": part.number,
            "parts": part.parts,
            "language": "the document's language",
        }

    def _join(self, notes: Sequence[Note]) -> Note:
        text, made_of = joined(((note.text, note.material) for note in notes), "\n\n")
        pages = (notes[0].pages[0], notes[-1].pages[1])
        return Note(text, pages, self.prompter.encoder.count(text), made_of)


def _page_range(document: Document, start: int, end: int) -> tuple[int, int]:
    pages = document.pages_of(start, end) or (1,)
    return pages[0], pages[-1]


def _dash(pages: tuple[int, int]) -> str:
    return str(pages[0]) if pages[0] == pages[1] else f"{pages[0]}-{pages[1]}"
