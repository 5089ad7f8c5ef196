"""`Summarizer`: documents in, events out. One model load serves every document.

A document that fits the preset's chunk is summarized in one pass. A longer one is read in chunks, whose notes are
reduced, level by level, until one prompt holds them all: map-reduce. Every token of the text is in exactly one first-
level prompt.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

from specextend_cli.documents.document import Document
from specextend_cli.documents.read import read
from specextend_cli.engine import events as engine
from specextend_cli.engine.meter import Meter
from specextend_cli.errors import FitError, InputError, UsageError
from specextend_cli.models.preset import DEFAULT, PLACEHOLDERS, Preset
from specextend_cli.models.presets import load_preset
from specextend_cli.models.sources import Pair, fetch, fetch_pair
from specextend_cli.models.store import cache_root
from specextend_cli.models.tokens import TextEncoder
from specextend_cli.summarize.answers import Answers, Question
from specextend_cli.summarize.background import drained, stages
from specextend_cli.summarize.eagle import with_head
from specextend_cli.summarize.events import (
    Coverage,
    Event,
    Part,
    Plan,
    Stage,
    Summarized,
    Summary,
    Text,
    Warned,
)
from specextend_cli.summarize.grounds import Grounds
from specextend_cli.summarize.looks import Look
from specextend_cli.summarize.notes import NoteStore
from specextend_cli.summarize.pair import Choices, describe, load_writer
from specextend_cli.summarize.passages import Material, joined, material, passages
from specextend_cli.summarize.planning import Work, pack, plan_work
from specextend_cli.summarize.prompts import Prompter
from specextend_cli.summarize.request import SLACK, WORDS_PER_TOKEN, Request
from specextend_cli.summarize.runs import RunStore
from specextend_cli.summarize.sentences import split
from specextend_cli.summarize.shape import shape

if TYPE_CHECKING:
    from specextend_cli.summarize.writer import Writer


@dataclass(frozen=True, kw_only=True)
class Options(Choices, Request):
    """What a user may ask for. None keeps the preset's setting.

    `max_tokens` bounds every text that is written. `batch` notes are written at once; who chooses a draft, but no
    batch, has every text drafted for. `strict` refuses a document of which something cannot be read. Without `cache`,
    notes are neither reused nor kept.
    """

    preset: str = DEFAULT
    max_tokens: int | None = None
    batch: int | None = None
    offline: bool = False
    strict: bool = False
    cache: bool = True


@dataclass(frozen=True)
class _Note:
    """A text, the pages it is about, its size in target tokens, and the passages that it comes from."""

    text: str
    pages: tuple[int, int]
    tokens: int
    material: Material


class Summarizer:
    """Use as a context manager, or call `close`. Not for several threads at once.

    Notes are kept in `store`, by default the user's own.
    """

    def __init__(self, options: Options | None = None, *, store: NoteStore | None = None) -> None:
        self.options = options or Options()
        preset = load_preset(self.options.preset)
        self.request = Request(**{field.name: getattr(self.options, field.name) for field in fields(Request)})
        self.request.check(preset)
        preset = self.request.fitted(preset)
        self.preset: Preset = preset if self.options.head is None else with_head(preset, self.options.head)
        self.plain = False
        """Decode without drafts, with the same models: what `compare` compares with."""
        kept = cache_root() / "notes.sqlite" if self.options.cache else None
        self._store, self._runs = store or NoteStore(kept), RunStore(kept)
        self._prompter: Prompter | None = None
        self._writer: Writer | None = None

    def __enter__(self) -> Summarizer:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the models' memory."""
        self._writer = None

    @property
    def saves(self) -> bool:
        """Whether what is written now will be found again by a later run."""
        return self.notes is not None

    @property
    def notes(self) -> Path | None:
        """The file in which notes are kept, if they are."""
        return self._store.path

    def plan(self, document: Document) -> Plan:
        """What `run` would do, without loading a model. Fetches the model when it is not on this machine."""
        return drained(self._planned(document)).plan

    def summarize(self, source: Document | str | Path) -> Summary:
        """The summary of a document, or of the file at a path. Raises what `run` and `read` do."""
        for event in self.run(source if isinstance(source, Document) else read(Path(source))):
            if isinstance(event, Summarized):
                return event.summary
        raise AssertionError("the run ended without a summary")

    def run(self, document: Document) -> Iterator[Event]:
        """Summarize. The last event is `Summarized`; text is final when its event says so.

        Raises InputError, ModelError, FitError, UsageError as their names say.
        """
        began = perf_counter()
        meter = Meter()
        self._check(document)
        work = yield from self._planned(document)
        yield work.plan
        notes: list[_Note] = []
        text, read = "", 0
        grounds = Grounds(document, passages(document, work.chunks))
        for event in self._write_all(document, work, notes, grounds):
            if isinstance(event, (engine.Prefilled, engine.Step, engine.Retrieved)):
                meter.add(event)
            elif isinstance(event, Text) and event.final:
                text += event.delta
            elif isinstance(event, Part) and event.level == 1:
                read += event.tokens
            yield event
        if not text.strip():
            yield Warned("the model wrote no summary: another --model may")
        if self._store.problem:
            yield Warned(self._store.problem)
        extraction = document.extraction
        dropped = work.plan.tokens - read
        coverage = Coverage(extraction.pages, extraction.empty, extraction.failed, read, dropped, document.unit)
        summary = Summary(
            document=document.name,
            text=text.strip(),
            plan=work.plan,
            coverage=coverage,
            notes=tuple(note.text for note in notes),
            meter=meter,
            seconds=perf_counter() - began,
            preset=self.preset.name,
            drafter=self._drafter_name,
            sentences=tuple(grounds.sentences),
            request=self.request,
        )
        yield Summarized(replace(summary, run=self._runs.add(summary, document)))

    @property
    def _drafter_name(self) -> str:
        if self.plain:
            return "none"
        return describe(self._writer.drafter) if self._writer else self.options.draft or self.preset.draft.kind

    def _planned(self, document: Document) -> Generator[Stage, None, Work]:
        if not document.text.strip():
            raise InputError(f"{document.name} has no text", fix="specextend extract shows what was found in it")
        if self._prompter is None:
            source, name, offline = self.preset.target.source, self.preset.name, self.options.offline
            directory = yield from stages(lambda progress: fetch(source, name=name, offline=offline, progress=progress))
            self._prompter = Prompter(self.preset, TextEncoder.of(directory), directory, request=self.request)
            self._check_prompts()
        return plan_work(document, self.preset, self._prompter.encoder)

    def _check_prompts(self) -> None:
        """UsageError where a prompt of full size and its answer would leave the window the model was trained with."""
        window = self.preset.window
        values = dict.fromkeys(PLACEHOLDERS, "9999")
        text = max(window.chunk, 3 * (window.note_tokens + 2))
        for template in ("single", "map", "reduce"):
            new = window.note_tokens if template == "map" else self.request.room(window.summary_tokens)
            need = self._prompts.overhead(template, values) + text + new
            if need > window.context:
                raise UsageError(
                    f"preset {self.preset.name}: a {template} prompt of full size does not fit the model's window",
                    why=f"it can take {need:,} tokens of {window.context:,}",
                    fix="lower chunk, note_tokens or summary_tokens under [window]",
                )

    def _check(self, document: Document) -> None:
        if self.options.strict and document.extraction.failed:
            pages = ", ".join(map(str, document.extraction.failed))
            raise FitError(
                f"{document.name} cannot be read completely",
                why=f"{document.unit}s {pages} failed",
                fix="leave out --strict to summarize the rest",
            )

    def _write_all(self, document: Document, work: Work, first: list[_Note], grounds: Grounds) -> Iterator[Event]:
        """Map every chunk, then reduce until the preset's number of parts can be written from what is left.

        `first` receives the first level's notes.
        """
        window, levels = self.preset.window, work.plan.levels
        found = grounds.citer.passages
        sources = [
            _Note(document.text[c.start : c.end], _page_range(document, c.start, c.end), c.tokens, material(found, c))
            for c in work.chunks
        ]
        template, level = "map", 1
        while len(sources) > window.summary_parts:
            parts = [
                Part(number, len(sources), level, max(levels, level + 1), source.pages, source.tokens, False)
                for number, source in enumerate(sources, 1)
            ]
            answers = yield from self._answers.notes(
                [self._ask_note(template, document, *pair) for pair in zip(sources, parts, strict=True)]
            )
            count = self._prompts.encoder.count
            notes = [
                _Note(
                    answer.text,
                    source.pages,
                    count(answer.text),
                    grounds.citer.material(answer.text, answer.looks, source.material),
                )
                for answer, source in zip(answers, sources, strict=True)
            ]
            if level == 1:
                first.extend(notes)
            groups = pack([note.tokens for note in notes], window.chunk, window.summary_parts)
            sources = [self._join([notes[i] for i in group]) for group in groups]
            template, level = "merge", level + 1
        template = "single" if level == 1 else "reduce"
        words = self._words(work.plan.tokens)
        for number, source in enumerate(sources, 1):
            part = Part(number, len(sources), level, level, source.pages, source.tokens, True)
            question = self._ask_final(template, document, source, part, max(words // len(sources), 1))
            yield from self._final(question, source, grounds)

    def _ask_note(self, template: str, document: Document, source: _Note, part: Part) -> Question:
        limit = self._limit(self.preset.window.note_tokens, source.tokens)
        return self._ask(template, self._values(document, source, part, self._note_words), source, part, limit)

    def _ask_final(self, template: str, document: Document, source: _Note, part: Part, words: int) -> Question:
        most = self.request.room(self.preset.window.summary_tokens) // part.parts
        limit = self._limit(min(most, int(words / WORDS_PER_TOKEN * SLACK)), source.tokens)
        return self._ask(template, self._values(document, source, part, words), source, part, limit)

    def _ask(self, template: str, values: dict[str, object], source: _Note, part: Part, limit: int) -> Question:
        prompt = self._prompts.prompt(template, values, source.text)
        marks = self._prompts.marks(template, values, source.text, [origin.start for origin in source.material.origins])
        return Question(part, prompt, limit, marks)

    def _final(self, question: Question, source: _Note, grounds: Grounds) -> Iterator[Event]:
        """A part of the summary in its shape: each sentence, then what it rests on."""
        form = shape(self.request.style, question.part.number, question.part.parts)
        gap = form.gap if grounds.sentences else ""
        looks: list[Look] = []
        begin = end = 0  # of what was written since the last sentence in shape
        for event in self._answers.one(question):
            if isinstance(event, Look):
                looks.append(event)
            elif not isinstance(event, Text):
                yield event
            else:
                for sentence in split(event.delta):
                    end += len(sentence)
                    if delta := form.feed(sentence):
                        yield Text(gap + delta, True)
                        yield from grounds.add(gap + delta, (begin, end), looks, source.material)
                        gap, begin = "", end

    def load(self) -> Generator[Event, None, Writer]:
        """Load the models, if they are not loaded yet. `run` does it when it needs them."""
        if self._writer is None:
            options, preset = self.options, self.preset
            pair: Pair = yield from stages(
                lambda progress: fetch_pair(preset, offline=options.offline, progress=progress)
            )
            yield Stage(f"loading {preset.title}")
            self._writer = load_writer(preset, pair, options)
            self._writer.together = min(self._writer.together, self._batch)
            yield Stage(f"drafts: {describe(self._writer.drafter)}")
        return self._writer.plainly() if self.plain else self._writer

    @property
    def _answers(self) -> Answers:
        return Answers(self.preset, self.options, self._prompts, self._store, self.load)

    @property
    def _batch(self) -> int:
        options = self.options
        drafts = options.draft is not None or options.head is not None or options.policy is not None
        return options.batch or (1 if drafts else self.preset.window.batch)

    @property
    def _prompts(self) -> Prompter:
        assert self._prompter is not None
        return self._prompter

    @property
    def _note_words(self) -> int:
        return int(self.preset.window.note_tokens * WORDS_PER_TOKEN * 0.8)

    def _words(self, tokens: int) -> int:
        """How long a summary to ask for: what the user wants, else the preset's length, a third of a short text."""
        most = int(self.preset.window.summary_tokens * WORDS_PER_TOKEN * 0.8)
        return self.request.words(max(min(most, int(tokens * WORDS_PER_TOKEN / 3)), 10))

    def _limit(self, tokens: int, source_tokens: int) -> int:
        """Most new tokens of a text: always fewer than what it summarizes has."""
        wanted = min(tokens, self.options.max_tokens or tokens)
        return max(min(wanted, source_tokens - 1), 1)

    def _values(self, document: Document, source: _Note, part: Part, words: int) -> dict[str, object]:
        return {
            "title": document.name,
            "words": words,
            "pages": _dash(source.pages),
            "part": part.number,
            "parts": part.parts,
            "language": "the document's language",
        }

    def _join(self, notes: Sequence[_Note]) -> _Note:
        text, made_of = joined(((note.text, note.material) for note in notes), "\n\n")
        pages = (notes[0].pages[0], notes[-1].pages[1])
        return _Note(text, pages, self._prompts.encoder.count(text), made_of)


def compare(document: Document, options: Options) -> Iterator[Event]:
    """The document summarized twice with the same models in one process: plainly, then with drafts."""
    with Summarizer(replace(options, cache=False, batch=1)) as summarizer:
        yield from summarizer.load()
        for plain in (True, False):
            summarizer.plain = plain
            yield from summarizer.run(document)


def _page_range(document: Document, start: int, end: int) -> tuple[int, int]:
    pages = document.pages_of(start, end) or (1,)
    return pages[0], pages[-1]


def _dash(pages: tuple[int, int]) -> str:
    return str(pages[0]) if pages[0] == pages[1] else f"{pages[0]}-{pages[1]}"
