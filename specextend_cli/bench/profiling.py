"""`bench --profile`: where a step's time goes, by torch.profiler over the decoding loop as it is.

Nothing in the engine is changed for it: the target, its attention and the drafter are wrapped, so that the profiler
finds their calls by name, and what a step does besides is sampling, acceptance and the loop.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from torch import Tensor
from torch.profiler import ProfilerActivity, profile, record_function

from specextend_cli.bench.ceilings import wait
from specextend_cli.bench.events import Decoding, Reading
from specextend_cli.bench.experiments.setting import Run, Setting
from specextend_cli.bench.lengths import format_length
from specextend_cli.bench.methods import PLAIN, Recipe
from specextend_cli.bench.prefilled import Prefilled
from specextend_cli.bench.tables import Cell, Experiment, StackedBars, Table
from specextend_cli.bench.workloads import Prompt
from specextend_cli.engine.attention import Backend
from specextend_cli.engine.config import TreeShape
from specextend_cli.engine.decode import decode
from specextend_cli.engine.draft_gate import DraftGate
from specextend_cli.engine.drafters import Drafter
from specextend_cli.engine.events import Event, Step
from specextend_cli.engine.lm import Output
from specextend_cli.engine.stop import Stop
from specextend_cli.engine.tree import DraftTree
from specextend_cli.errors import UsageError

if TYPE_CHECKING:
    from torch.autograd.profiler_util import FunctionEvent

STEPS = 12
_WARM_UP = 4  # steps: two of them show a gate, and an allocator, what a step is

PRODUCTS, ATTENTION, SMALL, CALLS = "matrix products", "attention", "small operations", "calling them"
KEEPING, DRAFTING, CHOOSING = "keeping keys", "drafting", "choosing a working set"
REST = "sampling, acceptance, loop"
KINDS = (PRODUCTS, ATTENTION, SMALL, CALLS, KEEPING, DRAFTING, CHOOSING, REST)
_VERIFYING = "verifying"
_QUIET = "99"
_PRODUCTS = ("linear", "matmul", "mm", "addmm", "bmm", "few_rows", "_weight_int4pack_mm", "mkldnn", "_scaled_mm")

_Sums: TypeAlias = "defaultdict[str, float]"


@dataclass(frozen=True)
class _Profile:
    """Of one kind of step behind one length. Milliseconds a step; `device` is empty where the host computes."""

    length: int
    step: str
    nodes: float
    alone: float
    profiled: float
    host: dict[str, float]
    device: dict[str, float]
    calls: dict[str, float]


def run(setting: Setting, directory: Path | None = None) -> Run:
    """Plain steps, and verifications of the preset's tree with its draft on every step, on one prompt a length.

    A trace of each for chrome://tracing or Perfetto goes to `directory`. UsageError where it cannot be written.
    """
    os.environ.setdefault("KINETO_LOG_LEVEL", _QUIET)  # it says on stderr when it starts and stops
    models = setting.models
    kind = models.choices.draft or models.preset.draft.kind
    drafted = Recipe(lambda target: models.drafter(kind, target, models.retrieval), models.retrieval, models.shape)
    plain = setting.named(PLAIN)[PLAIN]
    assert isinstance(plain, Recipe)
    steps = {PLAIN: plain} if kind == "none" else {PLAIN: plain, "verification": drafted}
    found: list[_Profile] = []
    for length, prompts in groupby(setting.prompts, key=lambda prompt: prompt.length):
        prompt = next(iter(prompts))
        with models.fitted(length + _tokens(drafted.shape)):
            target = _Target(models.lm, score_layers=models.retrieval.layers)
            for name, recipe in steps.items():
                yield Reading(prompt.document, length, 0)
                events = _decoding(setting, target, recipe, prompt)
                _advance(events, _WARM_UP, models.device)
                yield Decoding(name, prompt.document, length, 0, 0, 2 * STEPS)
                alone, _ = _advance(events, STEPS, models.device)
                yield Decoding(name, prompt.document, length, 0, STEPS, 2 * STEPS)
                with profile(activities=_activities(models.device)) as profiler:
                    profiled, nodes = _advance(events, STEPS, models.device)
                found.append(_attribute(length, name, nodes, alone, profiled, profiler.events() or ()))
                if directory is not None:
                    _export(profiler, directory / f"trace-{name}-{format_length(length)}.json.gz")
    return Experiment("profile", "Where does the time of a step go?", (_totals(found), _shares(found)), (_bars(found),))


class _Target(Prefilled):
    """A target whose calls the profiler finds by name."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.verify_backend = _marked(self.verify_backend)

    def verify(self, tree: DraftTree, *, features: Sequence[int] = (), record: bool = False) -> Output:
        with record_function(_VERIFYING):
            return super().verify(tree, features=features, record=record)

    def keep(self, path: Sequence[int]) -> None:
        with record_function(KEEPING):
            super().keep(path)

    def attention_from(self, path: Sequence[int]) -> Tensor:
        with record_function(CHOOSING):
            return super().attention_from(path)


def _marked(backend: Backend) -> Backend:
    def attend(q: Tensor, k: Tensor, v: Tensor, scale: float, tree_mask: Tensor | None) -> Tensor:
        with record_function(ATTENTION):
            return backend(q, k, v, scale, tree_mask)

    return attend


class _Drafter:
    """The same for a drafter. What it observes it reads when it drafts, so that observing counts as drafting."""

    def __init__(self, drafter: Drafter) -> None:
        self._drafter = drafter
        self.name, self.feature_layers = drafter.name, drafter.feature_layers

    @property
    def retrieves(self) -> bool:
        return self._drafter.retrieves

    @property
    def failure(self) -> str | None:
        return self._drafter.failure

    def begin(self, capacity: int) -> None:
        self._drafter.begin(capacity)

    def observe(self, tokens: Sequence[int], features: Tensor | None) -> None:
        with record_function(DRAFTING):
            self._drafter.observe(tokens, features)

    def propose(self, shape: TreeShape) -> DraftTree:
        with record_function(DRAFTING):
            return self._drafter.propose(shape)

    def retrieve(self, scores: Tensor) -> None:
        with record_function(CHOOSING):
            self._drafter.retrieve(scores)

    def visible(self) -> Tensor:
        with record_function(CHOOSING):
            return self._drafter.visible()


def _decoding(setting: Setting, target: _Target, recipe: Recipe, prompt: Prompt) -> Iterator[Event]:
    drafter = recipe.drafter(target)
    return decode(
        target,
        _Drafter(drafter) if recipe.shape.nodes > 1 else drafter,
        prompt.tokens,
        stop=Stop(_tokens(recipe.shape), frozenset()),
        sampling=setting.decoding.sampling,
        retrieval=recipe.retrieval,
        budget=DraftGate(recipe.shape, gate=False),
        prefill_chunk=setting.decoding.prefill_chunk,
    )


def _tokens(shape: TreeShape) -> int:
    """More than all steps can emit."""
    return (_WARM_UP + 2 * STEPS + 1) * (shape.depth + 1) + 1


def _advance(events: Iterator[Event], steps: int, device: torch.device) -> tuple[float, float]:
    """Seconds of as many steps, and the mean of their nodes."""
    wait(device)
    began, nodes = perf_counter(), 0
    for _ in range(steps):
        step = next(event for event in events if isinstance(event, Step) and event.nodes)
        nodes += step.nodes
    wait(device)
    return perf_counter() - began, nodes / steps


def _activities(device: torch.device) -> list[ProfilerActivity]:
    return [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if device.type == "cuda" else [])]


def _attribute(
    length: int, step: str, nodes: float, alone: float, profiled: float, events: Sequence[FunctionEvent]
) -> _Profile:
    """Every outermost operation belongs to one kind, with everything it calls."""
    host: _Sums = defaultdict(float)
    device: _Sums = defaultdict(float)
    calls: _Sums = defaultdict(float)
    for event in events:
        if event.device_type.name != "CPU" or event.is_async:
            continue
        parent = event.cpu_parent.name if event.cpu_parent is not None else None
        if parent is None and event.name == _VERIFYING:
            host[CALLS] += event.self_cpu_time_total
        elif parent is None and event.name in KINDS:
            _count(event, event.name, host, device, calls)
        elif parent is None:
            device[REST] += event.device_time_total
            calls[REST] += 1
        elif parent == _VERIFYING:
            _count(event, _kind(event.name), host, device, calls)
    host[REST] = max(1e6 * profiled - sum(host.values()), 0.0)
    return _Profile(
        length,
        step,
        nodes,
        1e3 * alone / STEPS,
        1e3 * profiled / STEPS,
        {kind: host[kind] / 1e3 / STEPS for kind in KINDS},
        {kind: device[kind] / 1e3 / STEPS for kind in KINDS} if any(device.values()) else {},
        {kind: calls[kind] / STEPS for kind in KINDS},
    )


def _count(event: FunctionEvent, kind: str, host: _Sums, device: _Sums, calls: _Sums) -> None:
    host[kind] += event.cpu_time_total
    device[kind] += event.device_time_total
    calls[kind] += 1


def _kind(name: str) -> str:
    """Of an operation that a layer calls."""
    if name == ATTENTION:
        return ATTENTION
    return PRODUCTS if name.rpartition("::")[2].startswith(_PRODUCTS) else SMALL


def _export(profiler: profile, path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        profiler.export_chrome_trace(str(path))
    except OSError as error:
        raise UsageError(
            f"the trace cannot be written to {path}", why=error.strerror or str(error), fix="another --report DIR"
        ) from error


def _totals(found: Sequence[_Profile]) -> Table:
    rows = tuple((one.length, one.step, one.nodes, one.alone, one.profiled) for one in found)
    header = ("prompt (tokens)", "step", "nodes", "step (ms)", "under the profiler (ms)")
    note = (
        "Profiling costs time for every operation it records, so small operations and calling them look larger below "
        "than they are, by the difference."
    )
    return Table("Steps", header, rows, note)


def _shares(found: Sequence[_Profile]) -> Table:
    on_device = any(one.device for one in found)
    rows: list[tuple[Cell, ...]] = []
    for one in found:
        for kind in KINDS:
            if one.host[kind]:
                more = (one.device.get(kind),) if on_device else ()
                rows.append(
                    (one.length, one.step, kind, one.host[kind], one.host[kind] / one.profiled, one.calls[kind], *more)
                )
    header = ("prompt (tokens)", "step", "what", "ms a step", "share", "calls a step")
    note = (
        "Verification: products, attention, small operations (norms, RoPE, activations, sums, copies), and the time "
        "between them, which is Python and transformers calling them. Drafting holds the draft's own."
    )
    if on_device:
        note += " Milliseconds are the host's, which may only be waiting; the last column is the GPU's own work."
    return Table("Where the time goes", header + (("on the GPU (ms)",) if on_device else ()), tuple(rows), note)


def _bars(found: Sequence[_Profile]) -> StackedBars:
    return StackedBars(
        "Where the time of a step goes",
        "milliseconds a step, under the profiler",
        tuple(f"{one.step} · {format_length(one.length)}" for one in found),
        KINDS,
        tuple(tuple(one.host[kind] for kind in KINDS) for one in found),
        percent=False,
    )
