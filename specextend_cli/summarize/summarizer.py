"""`Summarizer`: documents and requests in, events out. One model load serves them all."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

from specextend_cli.documents.document import Document
from specextend_cli.documents.read import read
from specextend_cli.engine.events import DrafterFailed
from specextend_cli.engine.meter import Meter
from specextend_cli.errors import InputError
from specextend_cli.models.fast_import import import_transformers
from specextend_cli.models.preset import DEFAULT, Preset
from specextend_cli.models.presets import load_preset
from specextend_cli.models.prompt_templates import Mode
from specextend_cli.models.sources import check_prompts, fetch, fetch_pair, is_present
from specextend_cli.models.tokens import TextEncoder
from specextend_cli.runtime.devices import device_kind, device_of, fit_threads, make_current, may_be_cuda
from specextend_cli.runtime.loading import describe, with_draft
from specextend_cli.runtime.loading_thread import Stage, in_thread, result_of, stages
from specextend_cli.runtime.options import Engine
from specextend_cli.runtime.runners import load_library
from specextend_cli.summarize.answers import CachedGenerator
from specextend_cli.summarize.cache import GenerationCache, RunStore, results_file
from specextend_cli.summarize.events import Coverage, Event, Part, Plan, Retried, Summarized, Summary, Warned
from specextend_cli.summarize.extract import Extract
from specextend_cli.summarize.mapreduce import MapReduce
from specextend_cli.summarize.prompts import PromptBuilder
from specextend_cli.summarize.ranking.wording import wording
from specextend_cli.summarize.request import Request, target_words
from specextend_cli.summarize.words import count_words

if TYPE_CHECKING:
    from specextend_cli.summarize.writer import TextGenerator


class Summarizer(AbstractContextManager["Summarizer"]):
    """Use as a context manager, or call `close`. Not for several threads at once.

    It serves any number of documents and requests; models are loaded when the first of them needs one. `batch` chunk
    summaries are generated in a batch, without drafts; with a chosen draft, but no `batch`, every text is drafted for.
    Without `cache`, chunk summaries are neither reused nor saved in the user's own file. UsageError, ModelError: there
    is no such model, or draft.
    """

    def __init__(self, engine: Engine | None = None, *, batch: int | None = None, cache: bool = True) -> None:
        self.engine = engine or Engine()
        self.batch = batch
        self.preset: Preset = with_draft(load_preset(self.engine.model or DEFAULT), self.engine)
        """What writes, where something is written."""
        self.plain = False
        """Decode without drafts, with the same models: what `compare` compares with."""
        path = results_file() if cache else None
        self._cache, self._runs = GenerationCache(path), RunStore(path)
        self._tokenizer: tuple[TextEncoder, Path] | None = None
        self._generator: TextGenerator | None = None
        self._loading: Generator[Stage, None, TextGenerator] | None = None

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Free the models' memory."""
        self._generator = self._loading = None

    @property
    def saves(self) -> bool:
        """Whether a later run will find what is generated now."""
        return self._cache.path is not None

    def mode(self, request: Request) -> Mode:
        """The kind of summary: abstractive where it is asked for or needed, or a model was chosen."""
        if request.needs_writing:
            return "abstractive"
        return request.mode or ("abstractive" if self.engine.model else "extractive")

    def check(self, request: Request) -> Preset | None:
        """The preset that is to write what is asked for; None: the document is quoted.

        UsageError where the preset has no place for something.
        """
        if self.mode(request) == "extractive":
            return None
        request.check(self.preset)
        return self.preset

    def plan(self, document: Document, request: Request | None = None) -> Plan:
        """What `run` would do, without loading a model. Fetches the model when it is not on this machine."""
        return result_of(self._pipeline(document, request or Request())).plan

    def summarize(self, source: Document | str | Path, request: Request | None = None) -> Summary:
        """The summary of a document, or of the file at a path. Raises what `run` and `read` do."""
        for event in self.run(source if isinstance(source, Document) else read(Path(source)), request):
            if isinstance(event, Summarized):
                return event.summary
        raise AssertionError("the run ended without a summary")

    def run(self, document: Document, request: Request | None = None) -> Iterator[Event]:
        """Summarize. The last event is `Summarized`; the summary's text is that of all `Sentence` events.

        Raises InputError, ModelError, FitError, UsageError as their names say.
        """
        began, request, meter = perf_counter(), request or Request(), Meter()
        pipeline = yield from self._pipeline(document, request)
        plan = pipeline.plan
        yield plan
        read = reused = 0
        retried: list[Retried] = []
        warnings: list[str] = []
        for event in chain(pipeline.run(), self._warnings(pipeline)):
            meter.add(event)
            match event:
                case Part(level=1):
                    read += event.tokens
                    reused += event.reused
                case Retried():
                    retried.append(event)
                case DrafterFailed():
                    event = Warned(f"{event.why}: it drafts no more, and the summary is not affected")
            if isinstance(event, Warned):
                warnings.append(event.message)
            yield event
        method, sentences = pipeline.method, tuple(pipeline.citer.sentences)
        summary = Summary(
            document=document.name,
            text="".join(one.lead + one.text for one in sentences),
            plan=plan,
            coverage=Coverage.of(document, read, plan.tokens - read),
            chunk_summaries=pipeline.chunk_summaries,
            meter=meter,
            seconds=perf_counter() - began,
            preset=self.preset.name,
            drafter=self._drafter_name if method == "abstractive" else "none",
            sentences=sentences,
            request=request,
            retried=tuple(retried),
            method=method,
            warnings=(*document.extraction.warnings, *warnings),
            reused=reused,
            own=pipeline.own if isinstance(pipeline, Extract) else None,
        )
        yield Summarized(replace(summary, run=self._runs.add(summary, document, self._device)))

    def _warnings(self, pipeline: Extract | MapReduce) -> Iterator[Warned]:
        """What is to be said of a summary, when it is written."""
        if not pipeline.citer.sentences:
            yield Warned("the model wrote no summary: another --model may")
        elif pipeline.method == "abstractive" and self.preset.unreliable:
            yield Warned(
                f"{self.preset.name} wrote these sentences, and it often writes what is not so: check them;"
                " --mode extractive quotes the document's"
            )
        if self._cache.problem:
            yield Warned(self._cache.problem)
        if self._generator and (problem := self._generator.take_problem()):
            yield Warned(problem)

    @property
    def _drafter_name(self) -> str:
        if self.plain:
            return "none"
        return describe(self._generator.drafter) if self._generator else self.engine.draft or self.preset.draft.kind

    def _pipeline(self, document: Document, request: Request) -> Generator[Stage, None, Extract | MapReduce]:
        """What summarizes the document. InputError where it has no text."""
        if not document.text.strip():
            raise InputError(f"{document.name} has no text", fix="specextend extract shows what was found in it")
        preset, size = self.check(request), count_words(document.text)
        words = target_words(request, preset, size)
        if preset is None or (size <= words and not request.needs_writing):
            return Extract(document, request, words)
        prompts = yield from self._prompts(request)
        prompts.check()
        generator = CachedGenerator(preset, self.engine, prompts, self._cache, self.load)
        return MapReduce(document, words, generator, self._runs.rates(self._device).get(preset.name))

    @cached_property
    def _device(self) -> str:
        return device_kind(self.engine.device)

    def _prompts(self, request: Request) -> Generator[Stage, None, PromptBuilder]:
        """What makes the prompts for a request, by the target's tokenizer, which is fetched if need be."""
        if self._tokenizer is None:
            source, name, offline = self.preset.target.source, self.preset.name, self.engine.offline
            check_prompts(self.preset)
            directory = yield from stages(lambda progress: fetch(source, name=name, offline=offline, progress=progress))
            self._tokenizer = TextEncoder.of(directory), directory
        return PromptBuilder(self.preset, *self._tokenizer, request=request)

    def load_ahead(self, request: Request) -> None:
        """Begin `load` in a thread where a GPU is to write; on processors, it would share the interpreter with reading.

        For programs that read a document meanwhile, and end without shutting Python down while `is_busy`. Whether it is
        needed only the document says: one that is short, or whose texts are stored, waits for nothing.
        """
        if self.mode(request) == "extractive":
            wording("en")  # compiled while the document is read
        elif self._generator is None and self._loading is None and may_be_cuda(self.engine.device):
            self._loading = self._finish(in_thread(self._begin))

    def load(self) -> Generator[Event, None, TextGenerator]:
        """Load the models, if they are not loaded yet, for this thread. `run` does it before every text."""
        if self._generator is None:
            loading, self._loading = self._loading or self._load(), None
            self._generator = yield from loading
        make_current(self._generator.target.lm.device)
        return self._generator.without_drafts() if self.plain else self._generator

    def _load(self) -> Generator[Stage, None, TextGenerator]:
        """Fetch both models, and load them with what they need: transformers, threads, the native library."""
        preset, engine = self.preset, self.engine
        pair = yield from stages(lambda progress: fetch_pair(preset, offline=engine.offline, progress=progress))
        yield Stage(f"loading {preset.title}")
        import_transformers()
        fit_threads()
        if engine.compile:
            yield from load_library(pair.target, device_of(engine.device))
        from specextend_cli.summarize.writer import load_writer

        return (yield from load_writer(preset, pair, engine, batch=self.batch))

    def _begin(self, put: Callable[[Stage], None]) -> TextGenerator | None:
        """In another thread: `_load` if nothing has to be fetched and CUDA computes; else no more than imports."""
        if not is_present(self.preset):
            return None
        put(Stage(f"loading {self.preset.title}"))
        import_transformers()
        return result_of(self._load(), put) if device_of(self.engine.device).type == "cuda" else None

    def _finish(self, begun: Generator[Stage, None, TextGenerator | None]) -> Generator[Stage, None, TextGenerator]:
        """What `_begin` loaded or raised, with its events; else `_load`, now."""
        generator = yield from begun
        if generator is None:
            return (yield from self._load())
        fit_threads()  # as the other thread did: each has its own number
        return generator
