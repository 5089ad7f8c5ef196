"""`bench --profile`: where a step's time goes, by torch.profiler over the decoding loop.

Methods of the target and the drafter are wrapped in `record_function`, so that the profiler finds their calls by name.
What a step does outside them is sampling, acceptance and the loop.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import wraps
from itertools import groupby
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch.profiler import ProfilerActivity, profile, record_function

from specextend_cli.bench.events import Decoding, Reading
from specextend_cli.bench.experiments.study import Run, Setting
from specextend_cli.bench.prefilled import Prefilled
from specextend_cli.bench.recipes import Recipe
from specextend_cli.bench.records import PLAIN, format_length
from specextend_cli.bench.roofline import wait
from specextend_cli.bench.tables import Cell, Experiment, StackedBars, Table
from specextend_cli.bench.workloads import Prompt
from specextend_cli.engine.config import TreeShape
from specextend_cli.engine.decode import decode
from specextend_cli.engine.draft_gate import DraftGate
from specextend_cli.engine.events import Event, Step
from specextend_cli.engine.stop import Stop
from specextend_cli.errors import UsageError

if TYPE_CHECKING:
    from torch.autograd.profiler_util import FunctionEvent

STEPS = 12
_WARM_UP = 4  # steps

PRODUCTS, ATTENTION, SMALL, CALLS = "matrix products", "attention", "small operations", "calling them"
KEEPING, DRAFTING, CHOOSING = "keeping keys", "drafting", "choosing a working set"
REST = "sampling, acceptance, loop"
KINDS = (PRODUCTS, ATTENTION, SMALL, CALLS, KEEPING, DRAFTING, CHOOSING, REST)
_VERIFYING = "verifying"
_PRODUCTS = ("linear", "matmul", "mm", "addmm", "bmm", "int4_matmul", "_weight_int4pack_mm", "mkldnn", "_scaled_mm")


class _Profile(NamedTuple):
    """One kind of step after one prompt length. Milliseconds a step; `device` is empty without a GPU."""

    length: int
    step: str
    nodes: float
    alone: float
    profiled: float
    host: dict[str, float]
    device: dict[str, float]
    calls: dict[str, float]


def run(setting: Setting, directory: Path | None = None) -> Run:
    """Profile plain steps, and verifications of the preset's tree with a draft on every step; one prompt a length.

    Traces for chrome://tracing or Perfetto go to `directory`. UsageError if it cannot be written.
    """
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # else it writes to stderr
    models = setting.models
    kind = models.choices.draft or models.preset.draft.kind
    plain = setting.named(PLAIN)[PLAIN]
    assert isinstance(plain, Recipe)
    steps = {PLAIN: plain}
    if kind != "none":
        steps["verification"] = Recipe(
            lambda target: models.drafter(kind, target, models.retrieval), models.retrieval, models.shape
        )
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if models.device.type == "cuda" else [])]
    found: list[_Profile] = []
    for length, prompts in groupby(setting.prompts, key=lambda prompt: prompt.length):
        prompt = next(iter(prompts))
        with models.fitted(length + _tokens(models.shape)):
            target = Prefilled(models.lm, score_layers=models.retrieval.layers)
            target.verify_backend = _named(ATTENTION, target.verify_backend)
            _name_calls(target, {"verify": _VERIFYING, "keep": KEEPING, "attention_from": CHOOSING})
            for name, recipe in steps.items():
                yield Reading(prompt.document, length, 0)
                events = _decoding(setting, target, recipe, prompt)
                _advance(events, _WARM_UP, models.device)
                yield Decoding(name, prompt.document, length, 0, 0, 2 * STEPS)
                alone, _ = _advance(events, STEPS, models.device)
                yield Decoding(name, prompt.document, length, 0, STEPS, 2 * STEPS)
                with profile(activities=activities) as profiler:
                    profiled, nodes = _advance(events, STEPS, models.device)
                found.append(_attribute(length, name, nodes, alone, profiled, profiler.events() or ()))
                if directory is not None:
                    _export(profiler, directory / f"trace-{name}-{format_length(length)}.json.gz")
    return Experiment("profile", "Where does the time of a step go?", (_totals(found), _shares(found)), (_bars(found),))


def _named(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
    """The same function, recorded under a name."""

    @wraps(call)
    def recorded(*arguments: Any, **options: Any) -> Any:
        with record_function(name):
            return call(*arguments, **options)

    return recorded


def _name_calls(of: object, names: dict[str, str]) -> None:
    for method, name in names.items():
        setattr(of, method, _named(name, getattr(of, method)))


def _decoding(setting: Setting, target: Prefilled, recipe: Recipe, prompt: Prompt) -> Iterator[Event]:
    drafter = recipe.drafter(target)
    if recipe.shape.nodes > 1:  # what a drafter observes, it reads when it drafts: observing counts as drafting
        _name_calls(drafter, {"observe": DRAFTING, "propose": DRAFTING, "retrieve": CHOOSING, "visible": CHOOSING})
    return decode(
        target,
        drafter,
        prompt.tokens,
        stop=Stop(_tokens(recipe.shape), frozenset()),
        sampling=setting.decoding.sampling,
        retrieval=recipe.retrieval,
        gate=DraftGate(recipe.shape, enabled=False),
        prefill_chunk=setting.decoding.prefill_chunk,
    )


def _tokens(shape: TreeShape) -> int:
    """More than all steps can emit."""
    return (_WARM_UP + 2 * STEPS + 1) * (shape.depth + 1) + 1


def _advance(events: Iterator[Event], steps: int, device: torch.device) -> tuple[float, float]:
    """Seconds of that many steps, and the mean of their nodes."""
    wait(device)
    began, nodes = perf_counter(), 0
    for _ in range(steps):
        nodes += next(event.nodes for event in events if isinstance(event, Step) and event.nodes)
    wait(device)
    return perf_counter() - began, nodes / steps


def _attribute(
    length: int, step: str, nodes: float, alone: float, profiled: float, events: Sequence[FunctionEvent]
) -> _Profile:
    """Every outermost operation belongs to one kind, with everything it calls."""
    host, device, calls = Counter[str](), Counter[str](), Counter[str]()
    for event in events:
        if event.device_type.name != "CPU" or event.is_async:
            continue
        parent = event.cpu_parent.name if event.cpu_parent is not None else None
        if parent is None and event.name == _VERIFYING:
            host[CALLS] += event.self_cpu_time_total
        elif parent == _VERIFYING or (parent is None and event.name in KINDS):
            kind = event.name if event.name in KINDS else _kind(event.name)
            host[kind] += event.cpu_time_total
            device[kind] += event.device_time_total
            calls[kind] += 1
        elif parent is None:
            device[REST] += event.device_time_total
            calls[REST] += 1
    host[REST] = max(1e6 * profiled - sum(host.values()), 0.0)  # type: ignore[assignment]
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


def _kind(operation: str) -> str:
    return PRODUCTS if operation.rpartition("::")[2].startswith(_PRODUCTS) else SMALL


def _export(profiler: profile, path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        profiler.export_chrome_trace(str(path))
    except OSError as error:
        raise UsageError(
            f"the trace cannot be written to {path}", why=error.strerror or str(error), fix="another --report DIR"
        ) from error


def _totals(found: Sequence[_Profile]) -> Table:
    return Table(
        "Steps",
        ("prompt (tokens)", "step", "nodes", "step (ms)", "under the profiler (ms)"),
        tuple((one.length, one.step, one.nodes, one.alone, one.profiled) for one in found),
        "Profiling costs time for every operation it records, so small operations and calling them look larger below "
        "than they are, by the difference.",
    )


def _shares(found: Sequence[_Profile]) -> Table:
    on_device = any(one.device for one in found)
    header = ("prompt (tokens)", "step", "what", "ms a step", "share", "calls a step")
    rows: list[tuple[Cell, ...]] = [
        (one.length, one.step, kind, one.host[kind], one.host[kind] / one.profiled, one.calls[kind])
        + ((one.device.get(kind),) if on_device else ())
        for one in found
        for kind in KINDS
        if one.host[kind]
    ]
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
