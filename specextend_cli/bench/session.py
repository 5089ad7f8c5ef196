"""A benchmark from its options to its result, as a stream of events: `run(Options(…))`."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from specextend_cli.bench import methods, problems, texts
from specextend_cli.bench.events import Event, Explored, Finished
from specextend_cli.bench.workloads import Prompt, summaries
from specextend_cli.bench.workloads import problems as problem_prompts
from specextend_cli.models.preset import DEFAULT, Preset
from specextend_cli.models.presets import load_preset
from specextend_cli.models.sources import fetch_pair
from specextend_cli.models.tokens import TextEncoder
from specextend_cli.runtime.compiling import compiling, kernels
from specextend_cli.runtime.devices import device_of
from specextend_cli.runtime.eagle_head import with_head
from specextend_cli.runtime.loading import check_draft
from specextend_cli.runtime.loading_thread import stages
from specextend_cli.runtime.options import EngineOptions
from specextend_cli.runtime.threads import fit_threads
from specextend_cli.summarize.events import Stage, Warned
from specextend_cli.summarize.prompt_builder import PromptBuilder

if TYPE_CHECKING:
    from specextend_cli.bench.experiments.setting import Setting
    from specextend_cli.bench.measure import Decoding
    from specextend_cli.bench.models import Models
    from specextend_cli.bench.records import Machine
    from specextend_cli.bench.tables import Experiment
    from specextend_cli.engine.config import Sampling

DecodingName: TypeAlias = Literal["greedy", "preset", "sample"]
Workload: TypeAlias = Literal["summary", "reasoning"]

TEMPERATURE = 0.7
"""Of `sample`, where the preset is greedy."""

TOKENS: dict[Workload, int] = {"summary": 256, "reasoning": 2048}


@dataclass(frozen=True, kw_only=True)
class Options(EngineOptions):
    """What is measured. `tokens` None is the workload's own number; `methods` are names, the baseline among them."""

    preset: str = DEFAULT
    lengths: tuple[int, ...] = (1024,)
    tokens: int | None = None
    decoding: DecodingName = "preset"
    docs: int = 2
    repeats: int = 1
    methods: tuple[str, ...] = methods.DEFAULT
    inputs: tuple[Path, ...] = ()
    dataset: str | None = None
    workload: Workload = "summary"
    offline: bool = False
    fresh: bool = False

    @property
    def limit(self) -> int:
        """Most new tokens."""
        return self.tokens or TOKENS[self.workload]


@dataclass(frozen=True)
class _Prepared:
    """What every kind of benchmark begins with."""

    models: Models
    prompts: tuple[Prompt, ...]
    decoding: Decoding
    settings: dict[str, object]
    machine: Machine
    key: str
    """Of the interrupted runs that this one may continue."""


def run(options: Options) -> Iterator[Event]:
    """Measure; the last event is `Finished`. Errors as `Summarizer.run`; an interrupted run is continued by the next.

    Records are kept on disk as they come, until `Finished.forget` is called.
    """
    prepared = yield from _prepared(options, layers=not methods.have_attention_of_their_own(options.methods))

    from specextend_cli.bench.partial import Partial
    from specextend_cli.bench.records import Benchmark
    from specextend_cli.bench.runner import Runner

    able, unable = methods.build(options.methods, prepared.models)
    for name, why in unable.items():
        yield Warned(f"{name} is left out: {why}")
    partial = Partial(prepared.key, fresh=options.fresh)
    runner = Runner(prepared.models, able, prepared.decoding, options.repeats, options.seed or 0, skipped=dict(unable))
    yield from partial.keep(runner.run(prepared.prompts, partial.read()))
    if partial.problem:
        yield Warned(partial.problem)
    result = Benchmark(
        preset=prepared.models.preset.name,
        settings=prepared.settings,
        machine=prepared.machine,
        seed=options.seed or 0,
        records=runner.records(),
        references={prompt.document: prompt.reference for prompt in prepared.prompts if prompt.reference},
        skipped=runner.skipped,
    )
    yield Finished(result, runner.wrong(), partial.remove)


def explore(options: Options, names: Sequence[str]) -> Iterator[Event]:
    """Run experiments one after the other; the last event is `Explored`. Otherwise as `run`."""
    prepared = yield from _prepared(options, layers="ablation" not in names)

    from specextend_cli.bench import experiments

    settings, found = [], []
    for name in names:
        yield Stage(f"experiment {name}")
        settings.append(_setting(prepared, options, name))
        found.append((yield from experiments.run(name, settings[-1])))
    yield from _explored(prepared, options, settings, found)


def profile(options: Options, directory: Path | None = None) -> Iterator[Event]:
    """Where a step's time goes; traces go to `directory`. The last event is `Explored`. Otherwise as `run`.

    The layers are not compiled: a profiler sees operations, and a compiled layer is one.
    """
    prepared = yield from _prepared(options, layers=False)

    from specextend_cli.bench import profiling

    setting = _setting(prepared, options, "profile")
    found = yield from profiling.run(setting, directory)
    yield from _explored(prepared, options, [setting], [found])


def tune(options: Options, *, explain: bool = False) -> Iterator[Event]:
    """Look for better settings; the last event is `Explored`, with a preset where there are any. Otherwise as `run`.

    UsageError for a single document.
    """
    prepared = yield from _prepared(options)

    from specextend_cli.bench import tuning

    setting = _setting(prepared, options, "tune")
    tuned = yield from tuning.tune(setting, explain=explain)
    yield from _explored(prepared, options, [setting], [tuned.experiment], tuned.preset)


def _setting(prepared: _Prepared, options: Options, name: str) -> Setting:
    from specextend_cli.bench.experiments.setting import Setting
    from specextend_cli.bench.partial import Partial

    return Setting(
        prepared.models,
        prepared.prompts,
        prepared.decoding,
        options.repeats,
        options.seed or 0,
        prepared.machine,
        Partial(f"{prepared.key}-{name}", fresh=options.fresh),
    )


def _explored(
    prepared: _Prepared,
    options: Options,
    settings: Sequence[Setting],
    found: Sequence[Experiment],
    preset: Preset | None = None,
) -> Iterator[Event]:
    from specextend_cli.bench.notes import provenance
    from specextend_cli.bench.records import Benchmark

    partials = [setting.partial for setting in settings if setting.partial is not None]
    for problem in dict.fromkeys(partial.problem for partial in partials if partial.problem):
        yield Warned(problem)
    skipped = {name: why for setting in settings for name, why in setting.skipped.items()}
    asked = {name: value for name, value in prepared.settings.items() if name != "methods"}
    empty = Benchmark(prepared.models.preset.name, asked, prepared.machine, options.seed or 0, (), {}, skipped)

    def forget() -> None:
        for partial in partials:
            partial.remove()

    wrong = tuple(dict.fromkeys(method for setting in settings for method in setting.wrong))
    yield Explored(tuple(found), provenance(empty), wrong, skipped, prepared.models.exact, forget, preset)


def _prepared(options: Options, *, layers: bool = True) -> Generator[Event, None, _Prepared]:
    """`layers`: whether they may be compiled; with stock ones, `compile` stands for our kernels alone."""
    preset = load_preset(options.preset)
    if options.head is not None:
        preset = with_head(preset, options.head)
    check_draft(preset, options.draft)
    pair = yield from stages(lambda progress: fetch_pair(preset, offline=options.offline, progress=progress))
    prompts, short = _prompts(options, preset, PromptBuilder(preset, TextEncoder.of(pair.target), pair.target))
    for warning in short:
        yield Warned(warning)
    yield Stage(f"loading {preset.title}")

    from specextend_cli.bench import machine
    from specextend_cli.bench.measure import Decoding
    from specextend_cli.bench.models import Models
    from specextend_cli.bench.partial import key

    fit_threads()
    facts = machine.describe(device_of(options.device))
    longest = max(prompt.length for prompt in prompts) + options.limit
    if options.compile:
        yield from kernels(pair.target, device_of(options.device))
    models = Models(preset, pair, options, context=longest)
    if options.compile and layers:
        yield from compiling(models.lm, models.heads)
    sampling = _sampling(models, options)
    settings = _settings(options, models, sampling)
    settings["compile"] = ("kernels and layers" if layers else "kernels") if options.compile else "nothing"
    identity = {"preset": preset.model_dump(mode="json"), "machine": asdict(facts), "seed": options.seed or 0}
    return _Prepared(
        models,
        prompts,
        Decoding(sampling, options.limit, models.eos, models.prefill_chunk),
        settings,
        facts,
        key({**settings, **identity}, prompts),
    )


def _prompts(options: Options, preset: Preset, prompter: PromptBuilder) -> tuple[tuple[Prompt, ...], tuple[str, ...]]:
    if options.workload == "reasoning":
        named = bool(options.inputs or options.dataset)
        sources = (
            texts.sources(options.inputs, options.dataset, offline=options.offline) if named else problems.builtin()
        )
        return problem_prompts(sources, prompter, options.docs), ()
    sources = texts.sources(options.inputs, options.dataset, offline=options.offline)
    return summaries(sources, prompter, options.lengths, options.docs)


def _sampling(models: Models, options: Options) -> Sampling:
    from specextend_cli.engine.config import Sampling

    seed = options.seed or 0
    if options.decoding == "greedy":
        return Sampling(seed=seed)
    chosen = models.sampling
    if options.decoding == "sample" and chosen.greedy:
        return replace(chosen, temperature=TEMPERATURE)
    return chosen


def _settings(options: Options, models: Models, sampling: Sampling) -> dict[str, object]:
    """How it was asked for, in JSON types; whoever repeats it gets the same prompts and the same decoding."""
    asked = {
        field.name: getattr(options, field.name)
        for field in fields(Options)
        if field.name not in {"fresh", "offline", "policy", "preset", "seed", "temperature"}
    }
    retrieval = models.retrieval
    return {
        **asked,
        "lengths": list(options.lengths),
        "methods": list(options.methods),
        "inputs": [path.name for path in options.inputs],
        "head": None if options.head is None else Path(options.head).name,
        "tokens": options.limit,
        "device": str(models.device),
        "dtype": str(models.dtype).removeprefix("torch."),
        "draft": models.draft,
        "sampling": asdict(sampling),
        "retrieval": {**asdict(retrieval), "layers": list(retrieval.layers), "breaks": len(retrieval.breaks)},
        "tree": asdict(models.shape),
    }
