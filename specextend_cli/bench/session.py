"""A benchmark from its options to its result, as a stream of events: `run(Options(…))`."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from specextend_cli.bench import methods, texts, workloads
from specextend_cli.bench.events import Event, Finished
from specextend_cli.bench.records import Benchmark
from specextend_cli.engine.config import Sampling
from specextend_cli.models.preset import DEFAULT, Preset
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

if TYPE_CHECKING:
    from specextend_cli.bench.models import Models
    from specextend_cli.bench.setting import Setting
    from specextend_cli.bench.tables import Experiment

DecodingName: TypeAlias = Literal["greedy", "preset", "sample"]

TEMPERATURE = 0.7  # of `sample`, if the preset is greedy


@dataclass(frozen=True, kw_only=True)
class Options(EngineOptions):
    """The settings of a benchmark. `methods` are names, plain decoding among them."""

    preset: str = DEFAULT
    lengths: tuple[int, ...] = (1024,)
    tokens: int = 256
    decoding: DecodingName = "preset"
    docs: int = 2
    repeats: int = 1
    methods: tuple[str, ...] = methods.DEFAULT
    inputs: tuple[Path, ...] = ()
    dataset: str | None = None
    offline: bool = False
    fresh: bool = False


def run(options: Options) -> Iterator[Event]:
    """Measure; the last event is `Finished`. Raises what `Summarizer.run` raises.

    Records are kept on disk until `Finished.forget` is called, so that the next call continues an interrupted run.
    """
    setting, key = yield from _prepared(options, layers=not methods.have_own_attention(options.methods))
    setting = setting.saved_as(key, fresh=options.fresh)
    able = setting.named(*options.methods)
    for name, why in setting.skipped.items():
        yield Warned(f"{name} is left out: {why}")
    found = yield from setting.measure(able)
    yield from _finished([setting], setting.benchmark(found.benchmark.records))


def explore(options: Options, names: Sequence[str], *, traces: Path | None = None) -> Iterator[Event]:
    """Run experiments one after the other, "profile" among them. Otherwise as `run`.

    `traces`: where a profile keeps traces.
    """
    setting, key = yield from _prepared(options, layers=not {"ablation", "profile"} & set(names))
    setting = replace(setting, traces=traces)

    from specextend_cli.bench import experiments

    parts, found = [], []
    for name in names:
        yield Stage(f"experiment {name}")
        parts.append(setting.saved_as(f"{key}-{name}", fresh=options.fresh))
        found.append((yield from experiments.run(name, parts[-1])))
    asked = {name: value for name, value in setting.asked.items() if name != "methods"}
    yield from _finished(parts, setting.benchmark(settings=asked), tuple(found))


def _finished(parts: Sequence[Setting], benchmark: Benchmark, found: tuple[Experiment, ...] = ()) -> Iterator[Event]:
    partials = [part.partial for part in parts if part.partial is not None]
    for problem in dict.fromkeys(partial.problem for partial in partials if partial.problem):
        yield Warned(problem)

    def forget() -> None:
        for partial in partials:
            partial.remove()

    yield Finished(benchmark, tuple(parts[0].wrong), forget, found)


def _prepared(options: Options, *, layers: bool) -> Generator[Event, None, tuple[Setting, str]]:
    """Load everything; returns the setting and the key of its finished runs.

    `layers`: whether they may run natively or by CUDA graphs; without, `compile` means our kernels alone. A profiler
    sees such a forward as a single operation.
    """
    preset = with_draft(load_preset(options.preset), options)
    pair = yield from stages(lambda progress: fetch_pair(preset, offline=options.offline, progress=progress))
    sources = texts.sources(options.inputs, options.dataset)
    prompter = PromptBuilder(preset, TextEncoder.of(pair.target), pair.target)
    prompts, short = workloads.summaries(sources, prompter, options.lengths, options.docs)
    for warning in short:
        yield Warned(warning)
    yield Stage(f"loading {preset.title}")

    from specextend_cli.bench import machine
    from specextend_cli.bench.measure import Decoding
    from specextend_cli.bench.models import Models
    from specextend_cli.bench.setting import Setting
    from specextend_cli.bench.storage import key
    from specextend_cli.engine.target import Target

    fit_threads()
    facts = machine.describe(device_of(options.device))
    longest = max(prompt.length for prompt in prompts) + options.tokens
    if options.compile:
        yield from load_library(pair.target, device_of(options.device))
    models = Models(preset, pair, options, context=longest)
    if options.compile and layers:
        yield from run_natively(models.lm, models.heads, exact=is_exact(preset, options))
    if layers:
        target = Target(models.lm)
        drafter = models.drafter(models.draft, target, models.retrieval)
        yield from run_by_graphs(target, drafter, models.tree)
    sampling, seed = _sampling(models.preset, options), options.seed or 0
    compiled = ("kernels and layers" if layers else "kernels") if options.compile else "nothing"
    asked = _asked(options, models, sampling, compiled)
    identity = {"preset": preset.model_dump(mode="json"), "machine": asdict(facts), "seed": seed}
    decoding = Decoding(sampling, options.tokens, models.eos, models.prefill_chunk)
    setting = Setting(models, prompts, decoding, options.repeats, seed, facts, asked)
    return setting, key({**asked, **identity}, prompts)


def _sampling(preset: Preset, options: Options) -> Sampling:
    if options.decoding == "greedy":
        return Sampling(seed=options.seed or 0)
    chosen = sampling_of(preset, options)
    if options.decoding == "sample" and chosen.greedy:
        return replace(chosen, temperature=TEMPERATURE)
    return chosen


def _asked(options: Options, models: Models, sampling: Sampling, compiled: str) -> dict[str, object]:
    """The settings in JSON types; repeating them gives the same prompts and the same decoding."""
    left_out = {"fresh", "draft_attention", "offline", "preset", "seed", "temperature"}
    retrieval = models.retrieval
    return {
        **{field.name: getattr(options, field.name) for field in fields(Options) if field.name not in left_out},
        "lengths": list(options.lengths),
        "methods": list(options.methods),
        "inputs": [path.name for path in options.inputs],
        "draft_head": None if options.draft_head is None else Path(options.draft_head).name,
        "device": str(models.device),
        "dtype": str(models.dtype).removeprefix("torch."),
        "draft": models.draft,
        "sampling": asdict(sampling),
        "retrieval": {**asdict(retrieval), "layers": list(retrieval.layers), "breaks": len(retrieval.breaks)},
        "tree": asdict(models.tree),
        "attention": models.lm.attention,
        "graphs": models.device.type == "cuda" and models.lm.forward_backend is not None,
        "compile": compiled,
    }
