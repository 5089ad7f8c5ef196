"""Map-reduce: notes on every chunk, notes on notes until they fit, and the summary of what is left.

A document that fits the preset's chunk is summarized in one pass. Every token of its text is in exactly one first-level
prompt.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from specextend_cli.documents.document import Document
from specextend_cli.models.preset import Preset
from specextend_cli.summarize.answers import Answer, Answers, Question
from specextend_cli.summarize.events import Event, Part, Text
from specextend_cli.summarize.grounds import Grounds
from specextend_cli.summarize.looks import Look
from specextend_cli.summarize.passages import Material, joined, material
from specextend_cli.summarize.planning import Work, pack
from specextend_cli.summarize.prompts import Prompter
from specextend_cli.summarize.quoting import Quoter
from specextend_cli.summarize.request import SLACK, WORDS_PER_TOKEN, Request
from specextend_cli.summarize.sentences import spans, split
from specextend_cli.summarize.shape import Shape, shape


@dataclass(frozen=True)
class Note:
    """A text, the pages it is about, its size in target tokens, and the passages that it comes from."""

    text: str
    pages: tuple[int, int]
    tokens: int
    material: Material


@dataclass(frozen=True)
class _Draft:
    """What was written of a part of the summary."""

    question: Question
    source: Note
    answer: Answer


@dataclass(frozen=True)
class MapReduce:
    """One document's way through the levels. `notes` receives the first level's, `grounds` what sentences rest on.

    Where the preset says "quoted", what is written of the summary is a draft, and sentences of the document stand in
    its place. Who asks with a template of their own gets what the target makes of it.
    """

    document: Document
    work: Work
    preset: Preset
    request: Request
    max_tokens: int | None
    prompter: Prompter
    answers: Answers
    grounds: Grounds
    notes: list[Note] = field(default_factory=list)

    @cached_property
    def quoter(self) -> Quoter | None:
        """Finds those sentences, where they are wanted."""
        if self.preset.sentences == "written":
            return None
        return Quoter(self.document.text, self.grounds.citer.passages, self.grounds.citer.index)

    def run(self) -> Iterator[Event]:
        """Map every chunk, then reduce until the preset's number of parts can be written from what is left."""
        document, work, window = self.document, self.work, self.preset.window
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
                    self.grounds.citer.material(answer.text, answer.looks, source.material),
                )
                for answer, source in zip(answers, sources, strict=True)
            ]
            if level == 1:
                self.notes.extend(notes)
            groups = pack([note.tokens for note in notes], window.chunk, window.summary_parts)
            sources = [self._join([notes[i] for i in group]) for group in groups]
            template, level = "merge", level + 1
        template = "single" if level == 1 else "reduce"
        words = self._words(work.plan.tokens)
        drafts: list[_Draft] = []
        finals: list[tuple[Question, int]] = []  # with the room that each has in the summary
        for number, source in enumerate(sources, 1):
            part = Part(number, len(sources), level, level, source.pages, source.tokens, True)
            question = self._ask_final(template, source, part, max(words // len(sources), 1))
            finals.append((question if self.quoter is None else self._for_a_draft(question, source), question.limit))
        yield self.answers.begin([question for question, _ in finals])
        for (question, room), source in zip(finals, sources, strict=True):
            if self.quoter is None:
                yield from self._final(question, source)
            else:
                drafts.append((yield from self._drafted(self.quoter, question, source, room)))
        if not self.grounds.sentences:  # a poem, say, or another script: there is nothing that can be quoted
            for draft in drafts:
                yield from self._undrafted(draft)

    def _ask_note(self, template: str, source: Note, part: Part) -> Question:
        limit = self._limit(self.preset.window.note_tokens, source.tokens)
        return self._ask(template, self._values(source, part, self._note_words), source, part, limit)

    def _ask_final(self, template: str, source: Note, part: Part, words: int) -> Question:
        most = self.request.room(self.preset.window.summary_tokens) // part.parts
        limit = self._limit(min(most, int(words / WORDS_PER_TOKEN * SLACK)), source.tokens)
        return replace(self._ask(template, self._values(source, part, words), source, part, limit), shown=True)

    def _for_a_draft(self, question: Question, source: Note) -> Question:
        """A draft of a few words leads nowhere, however short the summary is to be."""
        least = self._limit(self.preset.window.note_tokens, source.tokens)
        return replace(question, limit=max(question.limit, least), shown=False)

    def _ask(self, template: str, values: dict[str, object], source: Note, part: Part, limit: int) -> Question:
        prompt = self.prompter.prompt(template, values, source.text)
        marks = self.prompter.marks(template, values, source.text, [origin.start for origin in source.material.origins])
        return Question(part, prompt, limit, marks, self.prompter.shared(template, values))

    def _final(self, question: Question, source: Note) -> Iterator[Event]:
        """A part of the summary in its shape: each sentence, then what it rests on."""
        form, gap = self._form(question)
        looks: list[Look] = []
        begin = end = 0  # of what was written since the last sentence in shape
        for event in self.answers.one(question):
            if isinstance(event, Look):
                looks.append(event)
            elif not isinstance(event, Text):
                yield event
            else:
                for sentence in split(event.delta):
                    end += len(sentence)
                    if delta := form.feed(sentence):
                        yield Text(gap + delta, True)
                        yield from self.grounds.add(gap + delta, (begin, end), looks, source.material)
                        gap, begin = "", end

    def _drafted(self, quoter: Quoter, question: Question, source: Note, room: int) -> Generator[Event, None, _Draft]:
        """The same of the document's own sentences, `room` tokens of them, once the draft is written."""
        answer = yield from self.answers.whole(question)
        said = [answer.text[start:end] for start, end in spans(answer.text)]
        form, gap = self._form(question)
        for quote in quoter.quotes(said, source.material.read, room, self.prompter.encoder.count):
            if delta := form.feed(quoter.text(quote)):
                yield Text(gap + delta, True)
                yield from self.grounds.quote(gap + delta, quote.passage, said[quote.draft])
                gap = form.space
        return _Draft(question, source, answer)

    def _undrafted(self, draft: _Draft) -> Iterator[Event]:
        """A draft as it is."""
        form, gap = self._form(draft.question)
        text, looks = draft.answer.text, draft.answer.looks
        for start, end in spans(text):
            if delta := form.feed(text[start:end]):
                yield Text(gap + delta, True)
                yield from self.grounds.add(gap + delta, (start, end), looks, draft.source.material)
                gap = form.space

    def _form(self, question: Question) -> tuple[Shape, str]:
        """The shape of a part, and what stands before its text."""
        form = shape(self.request.style, question.part.number, question.part.parts)
        return form, form.gap if self.grounds.sentences else ""

    @property
    def _note_words(self) -> int:
        return int(self.preset.window.note_tokens * WORDS_PER_TOKEN * 0.8)

    def _words(self, tokens: int) -> int:
        """How long a summary to ask for: what the user wants, else the preset's length, a third of a short text."""
        most = int(self.preset.window.summary_tokens * WORDS_PER_TOKEN * 0.8)
        return self.request.words(max(min(most, int(tokens * WORDS_PER_TOKEN / 3)), 10))

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
