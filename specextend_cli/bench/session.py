"""The settings of a benchmark, and what they name: `prepared(Options(…))` loads models and prompts for a `Runner`."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from specextend_cli.bench import machine, methods, prompts
from specextend_cli.bench.measure import Decoding
from specextend_cli.bench.models import Models
from specextend_cli.bench.results import Benchmark, Event
from specextend_cli.bench.runner import Runner
from specextend_cli.engine.target import Target
from specextend_cli.models.preset import DEFAULT
from specextend_cli.models.presets import load_preset
from specextend_cli.models.sources import fetch_pair
from specextend_cli.models.tokens import TextEncoder
from specextend_cli.runtime.devices import device_of, fit_threads
from specextend_cli.runtime.loading import heads_of, is_exact, sampling_of, with_draft
from specextend_cli.runtime.loading_thread import stages
from specextend_cli.runtime.options import Engine
from specextend_cli.runtime.runners import load_library, run_by_graphs, run_natively
from specextend_cli.summarize.events import Stage, Warned
from specextend_cli.summarize.prompts import PromptBuilder


@dataclass(frozen=True, kw_only=True)
class Options(Engine):
    """The settings of a benchmark. `methods` are names, plain decoding among them; experiments choose their own."""

    lengths: tuple[int, ...] = (1024,)
    tokens: int = 256
    docs: int = 2
    repeats: int = 1
    methods: tuple[str, ...] = methods.DEFAULT
    inputs: tuple[Path, ...] = ()
    dataset: Path | None = None


def prepared(options: Options, *, layers: bool) -> Generator[Event, None, tuple[Runner, Benchmark]]:
    """Load everything; returns the runner, and the benchmark as yet without results. Raises as `Summarizer.run`.

    `layers`: whether they may run natively or by CUDA graphs; without, transformers' layers run over our kernels.
    """
    preset = with_draft(load_preset(options.model or DEFAULT), options)
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
        target = Target(models.lm)
        drafter = models.drafter(models.draft, target, models.retrieval)
        yield from run_natively(models.lm, heads_of(drafter), exact=is_exact(preset, options))
        yield from run_by_graphs(target, drafter, models.tree)
    decoding = Decoding(sampling_of(models.preset, options), options.tokens, models.eos, models.prefill_chunk)
    settings = _settings(options, models, decoding, layers=layers)
    seed = options.seed or 0
    return Runner(models, framed, decoding, options.repeats, seed), Benchmark(preset.name, settings, facts, seed)


def _settings(options: Options, models: Models, decoding: Decoding, *, layers: bool) -> dict[str, object]:
    """The settings in JSON types; repeating them gives the same prompts and the same decoding."""
    own = {field.name for field in fields(Options)} - {field.name for field in fields(Engine)}
    retrieval = models.retrieval
    return {
        **{name: getattr(options, name) for name in sorted(own)},
        "lengths": list(options.lengths),
        "methods": list(options.methods),
        "dataset": None if options.dataset is None else options.dataset.name,
        "inputs": [path.name for path in options.inputs],
        "draft": models.draft,
        "draft_head": None if options.draft_head is None else Path(options.draft_head).name,
        "device": str(models.device),
        "dtype": str(models.dtype).removeprefix("torch."),
        "sampling": asdict(decoding.sampling),
        "retrieval": {**asdict(retrieval), "layers": list(retrieval.layers)},
        "tree": asdict(models.tree),
        "attention": models.lm.attention,
        "layers": "ours" if layers and models.lm.runner is not models.lm.stock else "transformers'",
    }
