"""`Summarizer`: documents in, events out. One model load serves every document; `mapreduce.py` is what it does."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass, fields, replace
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

from specextend_cli.documents.document import Document
from specextend_cli.documents.read import read
from specextend_cli.engine import events as engine
from specextend_cli.engine.meter import Meter
from specextend_cli.errors import FitError, InputError, UsageError
from specextend_cli.models.fast_import import import_transformers
from specextend_cli.models.preset import DEFAULT, PLACEHOLDERS, Preset
from specextend_cli.models.presets import load_preset
from specextend_cli.models.sources import ModelDirectories, fetch, fetch_pair
from specextend_cli.models.store import cache_root
from specextend_cli.models.tokens import TextEncoder
from specextend_cli.runtime.compiling import compiling, kernels
from specextend_cli.runtime.devices import device_of
from specextend_cli.runtime.eagle_head import with_head
from specextend_cli.runtime.loading import check_draft, describe, heads_of
from specextend_cli.runtime.loading_thread import result_of, stages
from specextend_cli.runtime.options import EngineOptions
from specextend_cli.runtime.threads import fit_threads, share_cores
from specextend_cli.summarize.cached_generator import CachedGenerator
from specextend_cli.summarize.events import (
    Coverage,
    Event,
    Level,
    Part,
    Plan,
    Retried,
    Stage,
    Summarized,
    Summary,
    Text,
    Warned,
)
from specextend_cli.summarize.evidence import EvidenceTracker
from specextend_cli.summarize.generation_cache import GenerationCache
from specextend_cli.summarize.mapreduce import MapReduce
from specextend_cli.summarize.planning import Work, plan_work
from specextend_cli.summarize.prompt_builder import PromptBuilder
from specextend_cli.summarize.provenance import passages
from specextend_cli.summarize.request import SummaryRequest
from specextend_cli.summarize.runs import RunStore

if TYPE_CHECKING:
    from specextend_cli.summarize.text_generator import TextGenerator


@dataclass(frozen=True, kw_only=True)
class Options(EngineOptions, SummaryRequest):
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

    def __post_init__(self, sentences: str | None, head: str | None, policy: str | None) -> None:
        SummaryRequest.__post_init__(self, sentences)
        EngineOptions.__post_init__(self, head, policy)


class Summarizer:
    """Use as a context manager, or call `close`. Not for several threads at once.

    Notes are kept in `store`, by default the user's own.
    """

    def __init__(self, options: Options | None = None, *, store: GenerationCache | None = None) -> None:
        self.options = options or Options()
        preset = load_preset(self.options.preset)
        self.request = SummaryRequest(
            **{field.name: getattr(self.options, field.name) for field in fields(SummaryRequest)}
        )
        self.request.check(preset)
        believed, preset = preset.mode == "abstractive", self.request.fitted(preset)
        self._doubted = not believed and preset.mode == "abstractive"
        self.preset: Preset = preset if self.options.draft_head is None else with_head(preset, self.options.draft_head)
        check_draft(self.preset, self.options.draft)
        self.plain = False
        """Decode without drafts, with the same models: what `compare` compares with."""
        kept = cache_root() / "notes.sqlite" if self.options.cache else None
        self._store, self._runs = store or GenerationCache(kept), RunStore(kept)
        self._prompter: PromptBuilder | None = None
        self._writer: TextGenerator | None = None

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
        return result_of(self._planned(document)).plan

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
        self._check(document)
        work = yield from self._planned(document)
        yield work.plan
        text, read, reused = "", 0, 0
        retried: list[Retried] = []
        grounds = EvidenceTracker(document, passages(document, work.chunks))
        mapreduce = MapReduce(
            document,
            work,
            self.preset,
            self.request,
            self.options.max_tokens,
            self._prompts,
            CachedGenerator(self.preset, self.options, self._prompts, self._store, self.load),
            grounds,
        )
        warnings: list[str] = []
        for event in self._told(mapreduce):
            if isinstance(event, (engine.Prefilled, engine.Step, engine.Retrieved)):
                meter.add(event)
            elif isinstance(event, Text) and event.final:
                text += event.delta
            elif isinstance(event, Part) and event.level == 1:
                read += event.tokens
            elif isinstance(event, Level) and event.level == 1:
                reused = event.reused
            elif isinstance(event, Retried):
                retried.append(event)
            elif isinstance(event, engine.DrafterFailed):
                event = Warned(f"{event.why}: it drafts no more, and the summary is not affected")
            if isinstance(event, Warned):
                warnings.append(event.message)
            yield event
        extraction = document.extraction
        dropped = work.plan.tokens - read
        coverage = Coverage(
            extraction.pages, extraction.empty, extraction.failed, read, dropped, document.unit, extraction.ocr
        )
        summary = Summary(
            document=document.name,
            text=text.strip(),
            plan=work.plan,
            coverage=coverage,
            chunk_summaries=tuple(note.text for note in mapreduce.notes),
            meter=meter,
            seconds=perf_counter() - began,
            preset=self.preset.name,
            drafter=self._drafter_name,
            sentences=tuple(grounds.sentences),
            request=self.request,
            retried=tuple(retried),
            method=mapreduce.method,
            warnings=(*extraction.warnings, *warnings),
            reused=reused,
        )
        yield Summarized(replace(summary, run=self._runs.add(summary, document)))

    def _told(self, mapreduce: MapReduce) -> Iterator[Event]:
        """What it tells, and what there is to be said of that."""
        wrote = False
        for event in mapreduce.run():
            wrote = wrote or (isinstance(event, Text) and event.final and bool(event.delta.strip()))
            yield event
        if not wrote:
            yield Warned("the model wrote no summary: another --model may")
        elif self._doubted and mapreduce.method == "abstractive":
            yield Warned(
                f"{self.preset.name} wrote these sentences, and it often writes what is not so: check them, or let it"
                " quote the document's (--mode extractive)"
            )
        if self._store.problem:
            yield Warned(self._store.problem)

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
            self._prompter = PromptBuilder(self.preset, TextEncoder.of(directory), directory, request=self.request)
            self._check_prompts()
        return plan_work(document, self._prompter, self._runs.rates(self.preset.name))

    def _check_prompts(self) -> None:
        """UsageError where a prompt of full size and its answer would leave the window the model was trained with."""
        window = self.preset.window
        values = dict.fromkeys(PLACEHOLDERS, "9999")
        text = max(window.chunk, 3 * (window.chunk_summary_tokens + 2))
        for template in ("single", "map", "reduce"):
            new = window.chunk_summary_tokens if template == "map" else self.request.room(window.summary_tokens)
            need = self._prompts.overhead(template, values) + text + new
            if need > window.context:
                raise UsageError(
                    f"preset {self.preset.name}: a {template} prompt of full size does not fit the model's window",
                    why=f"it can take {need:,} tokens of {window.context:,}",
                    fix="lower chunk, chunk_summary_tokens or summary_tokens under [window]",
                )

    def _check(self, document: Document) -> None:
        if self.options.strict and document.extraction.failed:
            pages = ", ".join(map(str, document.extraction.failed))
            raise FitError(
                f"{document.name} cannot be read completely",
                why=f"{document.unit}s {pages} failed",
                fix="leave out --strict to summarize the rest",
            )

    def load(self) -> Generator[Event, None, TextGenerator]:
        """Load the models, if they are not loaded yet. `run` does it when it needs them."""
        if self._writer is None:
            options, preset = self.options, self.preset
            pair: ModelDirectories = yield from stages(
                lambda progress: fetch_pair(preset, offline=options.offline, progress=progress)
            )
            yield Stage(f"loading {preset.title}")
            import_transformers()
            fit_threads()
            if options.compile:
                yield from kernels(pair.target, device_of(options.device))
            from specextend_cli.summarize.text_generator import load_generator

            self._writer = load_generator(preset, pair, options)
            if options.compile:
                yield from compiling(self._writer.target.lm, heads_of(self._writer.drafter))
            share_cores(self._writer.target.lm)
            self._writer.together = min(self._writer.together, self._batch)
            self._writer.keep_exact()
            yield Stage(f"drafts: {describe(self._writer.drafter)}")
        return self._writer.plainly() if self.plain else self._writer

    @property
    def _batch(self) -> int:
        options = self.options
        drafts = options.draft is not None or options.draft_head is not None or options.draft_attention is not None
        return options.batch or (1 if drafts else self.preset.window.batch)

    @property
    def _prompts(self) -> PromptBuilder:
        assert self._prompter is not None
        return self._prompter
