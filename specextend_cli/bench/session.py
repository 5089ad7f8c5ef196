"""What a benchmark runs in: `prepared(Options(…))` loads models and prompts, `Session.measure` runs methods on them."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property
from pathlib import Path

from specextend_cli.bench import machine, methods, prompts
from specextend_cli.bench.formats import Interval
from specextend_cli.bench.measure import Decoding
from specextend_cli.bench.models import Method, Models
from specextend_cli.bench.prompts import Prompt
from specextend_cli.bench.results import PLAIN, Benchmark, Event, Record, Running
from specextend_cli.bench.runner import Runner
from specextend_cli.bench.statistics import Quantity, Row, bootstrap_interval, paired_ratios, rows
from specextend_cli.engine.target import Target
from specextend_cli.models.preset import DEFAULT
from specextend_cli.models.presets import load_preset
from specextend_cli.models.sources import fetch_pair
from specextend_cli.models.tokens import TextEncoder
from specextend_cli.runtime.devices import device_of
from specextend_cli.runtime.graphs import run_by_graphs
from specextend_cli.runtime.loading import is_exact, sampling_of, with_draft
from specextend_cli.runtime.loading_thread import stages
from specextend_cli.runtime.native import load_library, run_natively
from specextend_cli.runtime.options import EngineOptions
from specextend_cli.runtime.threads import fit_threads
from specextend_cli.summarize.events import Stage, Warned
from specextend_cli.summarize.prompt_builder import PromptBuilder


@dataclass(frozen=True, kw_only=True)
class Options(EngineOptions):
    """The settings of a benchmark. `methods` are names, plain decoding among them."""

    preset: str = DEFAULT
    lengths: tuple[int, ...] = (1024,)
    tokens: int = 256
    docs: int = 2
    repeats: int = 1
    methods: tuple[str, ...] = methods.DEFAULT
    inputs: tuple[Path, ...] = ()
    dataset: Path | None = None
    offline: bool = False


@dataclass
class Session:
    """Models, prompts and decoding of a benchmark.

    `benchmark`: preset, machine, seed and settings, as yet without results. `wrong`: lossless methods whose tokens
    were wrong; `skipped`: methods left out.
    """

    models: Models
    prompts: tuple[Prompt, ...]
    decoding: Decoding
    repeats: int
    benchmark: Benchmark
    wrong: list[str] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)

    @property
    def lengths(self) -> tuple[int, ...]:
        """Prompt lengths, ascending."""
        return tuple(sorted({prompt.length for prompt in self.prompts}))

    def named(self, *names: str) -> dict[str, Method]:
        """Methods of the registry; those that cannot run here are added to `skipped`."""
        able, unable = methods.build(names, self.models)
        self.skipped |= unable
        return able

    def measure(self, chosen: Mapping[str, Method]) -> Generator[Running, None, Measurements]:
        """Run every method, and plain decoding, on every prompt."""
        every = {**self.named(PLAIN), **chosen}
        runner = Runner(self.models, every, self.decoding, self.repeats, self.benchmark.seed)
        yield from runner.run(self.prompts)
        self.wrong += [name for name in runner.wrong() if name not in self.wrong]
        self.skipped |= runner.skipped
        return Measurements(runner.records(), self.benchmark.seed)


@dataclass(frozen=True)
class Measurements:
    """The runs of an experiment, and figures of them; `seed` is that of intervals."""

    records: tuple[Record, ...]
    seed: int

    @cached_property
    def rows(self) -> tuple[Row, ...]:
        """A row a method and length."""
        return rows(self.records, self.seed)

    def ratio(self, row: Row, other: str, quantity: Quantity) -> Interval | None:
        """How many times less of `quantity` a method needs than another: the median of documents' own ratios."""
        own, others = (
            [record for record in self.records if (record.length, record.method) == (row.length, method)]
            for method in (row.method, other)
        )
        ratios = tuple(paired_ratios(own, others, quantity).values())
        return bootstrap_interval(ratios, seed=self.seed) if ratios else None


def prepared(options: Options, *, layers: bool) -> Generator[Event, None, Session]:
    """Load everything. Raises what `Summarizer.run` raises.

    `layers`: whether they may run natively or by CUDA graphs; without, transformers' layers run over our kernels.
    """
    preset = with_draft(load_preset(options.preset), options)
    pair = yield from stages(lambda progress: fetch_pair(preset, offline=options.offline, progress=progress))
    sources = prompts.sources(options.inputs, options.dataset)
    prompter = PromptBuilder(preset, TextEncoder.of(pair.target), pair.target)
    framed, short = prompts.summaries(sources, prompter, options.lengths, options.docs)
    for warning in short:
        yield Warned(warning)
    yield Stage(f"loading {preset.title}")
    fit_threads()
    device = device_of(options.device)
    facts = machine.describe(device)
    yield from load_library(pair.target, device)
    models = Models(preset, pair, options, context=max(prompt.length for prompt in framed) + options.tokens)
    if layers:
        yield from run_natively(models.lm, models.heads, exact=is_exact(preset, options))
        target = Target(models.lm)
        yield from run_by_graphs(target, models.drafter(models.draft, target, models.retrieval), models.tree)
    decoding = Decoding(sampling_of(models.preset, options), options.tokens, models.eos, models.prefill_chunk)
    settings = _settings(options, models, decoding, layers=layers)
    return Session(
        models, framed, decoding, options.repeats, Benchmark(preset.name, settings, facts, options.seed or 0)
    )


def _settings(options: Options, models: Models, decoding: Decoding, *, layers: bool) -> dict[str, object]:
    """The settings in JSON types; repeating them gives the same prompts and the same decoding."""
    own = {field.name for field in fields(Options)} - {field.name for field in fields(EngineOptions)}
    retrieval = models.retrieval
    return {
        **{name: getattr(options, name) for name in sorted(own - {"offline", "preset"})},
        "lengths": list(options.lengths),
        "methods": list(options.methods),
        "dataset": None if options.dataset is None else options.dataset.name,
        "inputs": [path.name for path in options.inputs],
        "draft": models.draft,
        "draft_head": None if options.draft_head is None else Path(options.draft_head).name,
        "device": str(models.device),
        "dtype": str(models.dtype).removeprefix("torch."),
        "sampling": asdict(decoding.sampling),
        "retrieval": {**asdict(retrieval), "layers": list(retrieval.layers), "breaks": len(retrieval.breaks)},
        "tree": asdict(models.tree),
        "attention": models.lm.attention,
        "layers": "ours" if layers and models.lm.forward_backend is not None else "transformers'",
    }
