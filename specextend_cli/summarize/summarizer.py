"""`Summarizer`: documents in, events out. One model load serves every document; `mapreduce.py` is what it does."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

from specextend_cli.documents.document import Document
from specextend_cli.documents.read import read
from specextend_cli.engine import events as decoding
from specextend_cli.engine.meter import Meter
from specextend_cli.errors import InputError, UsageError
from specextend_cli.models.preset import DEFAULT, PLACEHOLDERS, Preset
from specextend_cli.models.presets import load_preset, sentence_ranker
from specextend_cli.models.sources import ModelDirectories, check_prompts, fetch
from specextend_cli.models.tokens import TextEncoder
from specextend_cli.runtime.devices import make_current
from specextend_cli.runtime.loading import describe, is_exact, with_draft
from specextend_cli.runtime.loading_thread import Stage, result_of, stages
from specextend_cli.runtime.machine import device_kind, may_be_cuda
from specextend_cli.runtime.native import run_natively
from specextend_cli.runtime.options import EngineOptions
from specextend_cli.runtime.process_group import is_shared
from specextend_cli.summarize.answers import CachedGenerator
from specextend_cli.summarize.cache import GenerationCache, RunStore, results_file
from specextend_cli.summarize.events import (
    ChunkRead,
    Coverage,
    Event,
    Level,
    Method,
    Part,
    Plan,
    Retried,
    Summarized,
    Summary,
    Text,
    Warned,
)
from specextend_cli.summarize.extractive import Extractive, Guide, ScoredSentences
from specextend_cli.summarize.mapreduce import MapReduce
from specextend_cli.summarize.model_loading import begin_loading, import_ahead, load_writer, prepare
from specextend_cli.summarize.prompt_builder import PromptBuilder
from specextend_cli.summarize.ranking.ranker import STATES, TREES, StateWeights, Trees
from specextend_cli.summarize.request import SummaryRequest, SummarySettings

if TYPE_CHECKING:
    from specextend_cli.engine.reader import Reader
    from specextend_cli.summarize.writer import TextGenerator


@dataclass(frozen=True, kw_only=True)
class Options:
    """What a user may ask for: of the summary (`request`), of the `engine`, and of the run.

    `max_tokens` bounds every generated text. `batch` chunk summaries are generated in a batch, without drafts; with a
    chosen draft, but no `batch`, every text is drafted for. Without `cache`, chunk summaries are neither reused nor
    saved.
    """

    request: SummaryRequest = field(default_factory=SummaryRequest)
    engine: EngineOptions = field(default_factory=EngineOptions)
    preset: str = DEFAULT
    max_tokens: int | None = None
    batch: int | None = None
    offline: bool = False
    cache: bool = True


class Summarizer:
    """Use as a context manager, or call `close`. Not for several threads at once.

    Generated texts are saved in the user's own file.
    """

    def __init__(self, options: Options | None = None) -> None:
        self.options = options or Options()
        self.request = self.options.request
        preset = load_preset(self.options.preset)
        self.request.check(preset)
        self.preset: Preset = with_draft(preset, self.options.engine)
        self.plain = False
        """Decode without drafts, with the same models: what `compare` compares with."""
        path = results_file() if self.options.cache else None
        self._cache, self._runs = GenerationCache(path), RunStore(path)
        self._prompt_builder: PromptBuilder | None = None
        self._generator: TextGenerator | None = None
        self._loading: Generator[Stage, None, TextGenerator] | None = None
        self._reader: Reader | None = None

    def __enter__(self) -> Summarizer:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Free the models' memory."""
        self._generator = self._loading = self._reader = None

    @property
    def settings(self) -> SummarySettings:
        """What the preset and the options come to."""
        return SummarySettings(self.preset, self.request, self.options.max_tokens)

    @property
    def saves(self) -> bool:
        """Whether a later run will find what is generated now."""
        return self._cache.path is not None

    def plan(self, document: Document) -> Plan:
        """What `run` would do, without loading a model. Fetches the model when it is not on this machine."""
        return result_of(self._pipeline(self._scored(document))).plan

    def expected_seconds(self, plan: Plan) -> float | None:
        """How long reading and decoding will take, by this preset's last runs here; None before the first."""
        return plan.seconds

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
        extraction, unit = document.extraction, document.unit
        scored = self._scored(document)
        if self.settings.mode == "guided":
            # First of all: fetching, compiling and reading can take minutes.
            yield from Extractive(scored, self.settings).preview()
        pipeline = yield from self._pipeline(scored)
        plan = pipeline.plan
        yield plan
        text, read, reused = "", 0, 0
        retried: list[Retried] = []
        warnings: list[str] = []
        for event in pipeline.run():
            match event:
                case decoding.Prefilled() | decoding.Step() | decoding.Retrieved():
                    meter.add(event)
                case Text(final=True):
                    text += event.delta
                case Part(level=1):
                    read += event.tokens
                case Level(level=1):
                    reused = event.reused
                case ChunkRead():
                    reused += event.reused
                case Retried():
                    retried.append(event)
                case decoding.DrafterFailed():
                    event = Warned(f"{event.why}: it drafts no more, and the summary is not affected")
            if isinstance(event, Warned):
                warnings.append(event.message)
            yield event
        for warning in self._warnings(text, pipeline.method):
            warnings.append(warning)
            yield Warned(warning)
        pages, empty, failed, dropped = extraction.pages, extraction.empty, extraction.failed, plan.tokens - read
        left_out, unread = extraction.left_out, extraction.unread
        coverage = Coverage(pages, empty, failed, read, dropped, unit, extraction.ocr, left_out, unread)
        summary = Summary(
            document=document.name,
            text=text.strip(),
            plan=plan,
            coverage=coverage,
            chunk_summaries=pipeline.chunk_summaries,
            meter=meter,
            seconds=perf_counter() - began,
            preset=self.preset.name,
            drafter=self._drafter_name,
            sentences=tuple(pipeline.evidence.sentences),
            request=pipeline.settings.request,
            kind=pipeline.kind,
            retried=tuple(retried),
            method=pipeline.method,
            warnings=(*extraction.warnings, *warnings),
            reused=reused,
        )
        yield Summarized(replace(summary, run=self._runs.add(summary, document, self._device)))

    def _warnings(self, text: str, method: Method) -> list[str]:
        """What is to be said of a summary."""
        warnings = []
        if not text.strip():
            warnings.append("the model wrote no summary: another --model may")
        elif method == "abstractive" and self.preset.mode != "abstractive":
            warnings.append(
                f"{self.preset.name} wrote these sentences, and it often writes what is not so: check them, or let it"
                f" quote the document's (--mode {self.preset.mode})"
            )
        if self._cache.problem:
            warnings.append(self._cache.problem)
        if self._generator and (problem := self._generator.take_problem()):
            warnings.append(problem)
        return warnings

    @property
    def _drafter_name(self) -> str:
        if self.plain or self.settings.mode != "abstractive":
            return "none"
        return (
            describe(self._generator.drafter)
            if self._generator
            else self.options.engine.draft or self.preset.draft.kind
        )

    def _scored(self, document: Document) -> ScoredSentences:
        """The sentences of a document, not scored yet. InputError where it has no text."""
        if not document.text.strip():
            raise InputError(f"{document.name} has no text", fix="specextend extract shows what was found in it")
        return ScoredSentences(document, self._trees)

    def _pipeline(self, scored: ScoredSentences) -> Generator[Stage, None, Extractive | MapReduce]:
        """What summarizes the document of these sentences."""
        settings = self.settings
        if settings.mode == "extractive":
            return Extractive(scored, settings)
        rates = self._runs.rates(self.preset.name, settings.mode, self._device)
        yield from self._prepare()
        generator = CachedGenerator(self.preset, self.options.engine, self._builder, self._cache, self.load)
        if settings.mode == "guided":
            return Extractive(scored, settings, self._guide(generator.identity), rates)
        return MapReduce(scored.document, settings, generator, rates)

    @cached_property
    def _device(self) -> str:
        return device_kind(self.options.engine.device)

    @cached_property
    def _trees(self) -> Trees:
        own = self.preset.ranker.path / TREES if self.preset.ranker else None
        return Trees.load(own if own is not None and own.is_file() else sentence_ranker())

    def _guide(self, target: object) -> Guide:
        engine, ranker = self.options.engine, self.preset.ranker
        assert ranker is not None
        weights = StateWeights.load(ranker.path / STATES)
        return Guide(
            weights,
            self._builder.encoder,
            self._reading_prefix,
            ranker.chunk,
            identity=[target, engine.dtype, engine.device, engine.compile, engine.attention],
            cache=self._cache,
            load=partial(self._load_reader, weights.layer),
        )

    @property
    def _reading_prefix(self) -> list[int]:
        """The tokens behind which a chunk is read."""
        return self._builder.frame("map", dict.fromkeys(PLACEHOLDERS, ""))[0]

    def reader(self, layers: int) -> Generator[Event, None, tuple[Reader, TextEncoder, list[int], int]]:
        """The target's first layers, its encoder, the tokens before a chunk, a chunk's size: for `read_states`."""
        yield from self._prepare()
        reader = yield from self._load_reader(layers)
        size = self.preset.ranker.chunk if self.preset.ranker else 1024
        return reader, self._builder.encoder, self._reading_prefix, size

    def _prepare(self) -> Generator[Stage, None, None]:
        """Fetch the target, whose tokenizer makes the prompts."""
        if self._prompt_builder is None:
            source, name, offline = self.preset.target.source, self.preset.name, self.options.offline
            check_prompts(self.preset)
            directory = yield from stages(lambda progress: fetch(source, name=name, offline=offline, progress=progress))
            encoder = TextEncoder.of(directory)
            self._prompt_builder = PromptBuilder(self.preset, encoder, directory, request=self.request)
            self._check_prompts()

    def _check_prompts(self) -> None:
        """UsageError where a prompt of full size and its answer would leave the window the model was trained with."""
        if self.settings.mode != "abstractive":
            return  # nothing is written
        window = self.preset.window
        text = max(window.chunk, 3 * (window.chunk_summary_tokens + 2))
        for template in ("single", "map", "reduce"):
            usual = window.chunk_summary_tokens if template == "map" else window.summary_tokens
            new = usual if template == "map" else self.settings.summary_tokens
            room = window.context - self._builder.overhead(template) - text
            if usual <= room < new:
                raise self.request.too_long(room)
            if new > room:
                raise UsageError(
                    f"preset {self.preset.name}: a {template} prompt of full size does not fit the model's window",
                    why=f"it can take {window.context - room + new:,} tokens of {window.context:,}",
                    fix="lower chunk, chunk_summary_tokens or summary_tokens under [window]",
                )

    def _load_reader(self, layers: int) -> Generator[Event, None, Reader]:
        """Load the target's first layers, if they are not loaded yet."""
        if self._reader is None:
            options, preset, directory = self.options.engine, self.preset, self._builder.directory
            yield from prepare(preset.title.partition(",")[0], directory, options)
            from specextend_cli.runtime.loading import load_reader

            self._reader = load_reader(preset, ModelDirectories(directory, None), options, layers)
            if options.compile:
                exact = is_exact(preset, options)
                yield from run_natively(self._reader.lm, exact=exact, all_threads=True)
        make_current(self._reader.lm.device)
        return self._reader

    def load_ahead(self) -> None:
        """Begin in threads what `run` waits for where it needs models: imports, and `load` where a GPU is to write.

        For programs that read a document meanwhile, and end without shutting Python down while `is_busy`. Whether it is
        needed only the document says: one that is short, or whose texts are stored, waits for nothing.
        """
        engine, mode = self.options.engine, self.settings.mode
        if mode == "extractive" or not may_be_cuda(engine.device):  # beside ranking, imports share the interpreter
            return
        if mode == "abstractive" and not is_shared():
            if self._generator is None and self._loading is None:
                self._loading = begin_loading(self.preset, engine, self._load)
        else:
            import_ahead()

    def load(self) -> Generator[Event, None, TextGenerator]:
        """Load the models, if they are not loaded yet, for this thread. `run` does it before every text."""
        if self._generator is None:
            loading, self._loading = self._loading or self._load(), None
            self._generator = yield from loading
        make_current(self._generator.target.lm.device)
        return self._generator.without_drafts() if self.plain else self._generator

    def _load(self) -> Generator[Stage, None, TextGenerator]:
        options = self.options
        return load_writer(self.preset, options.engine, batch=options.batch, offline=options.offline)

    @property
    def _builder(self) -> PromptBuilder:
        assert self._prompt_builder is not None
        return self._prompt_builder
