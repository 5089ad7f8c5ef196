"""`bench --profile`: where a step's time goes, by torch.profiler over the decoding loop.

Methods of the target and the drafter are wrapped in `record_function`, so that the profiler finds their calls by name.
What a step does outside them is sampling, acceptance and the loop.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING

import torch
from torch.profiler import ProfilerActivity, record_function

from specextend_cli.bench.events import Running, Working
from specextend_cli.bench.measure import measured
from specextend_cli.bench.models import Recipe
from specextend_cli.bench.prefilled import Prefilled
from specextend_cli.bench.records import PLAIN, Run, format_length
from specextend_cli.bench.roofline import wait
from specextend_cli.bench.setting import Setting
from specextend_cli.bench.tables import Cell, Experiment, Table
from specextend_cli.bench.workloads import Prompt
from specextend_cli.engine.config import TreeShape
from specextend_cli.engine.draft_gate import DraftGate
from specextend_cli.engine.events import Event, Step

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


def profile(setting: Setting) -> Generator[Running, None, Experiment]:
    """Profile plain steps, and verifications of `summarize`'s tree with a draft on every step; one prompt a length.

    Traces for chrome://tracing or Perfetto go to `setting.traces`.
    """
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # else it writes to stderr
    models = setting.models
    plain = setting.named(PLAIN)[PLAIN]
    assert isinstance(plain, Recipe)
    recipes = {PLAIN: plain}
    if models.own_draft != "none":
        recipes["verification"] = models.recipe(models.own_draft, models.retrieval)
    on_gpu = models.device.type == "cuda"
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if on_gpu else [])]
    steps, parts = list[dict[str, Cell]](), list[dict[str, Cell]]()
    for prompt in setting.one_a_length:
        with models.fitted(prompt.length + _tokens(models.tree)):
            target = Prefilled(models.lm, score_layers=models.retrieval.layers)
            target.verify_backend = record_function(ATTENTION)(target.verify_backend)
            _name_calls(target, {"verify": _VERIFYING, "keep": KEEPING, "attention_from": CHOOSING})
            for name, recipe in recipes.items():
                yield Working(f"profiling {name} · {format_length(prompt.length)} {prompt.document}")
                events = _decoding(setting, target, recipe, prompt)
                _advance(events, _WARM_UP, models.device)
                alone, _ = _advance(events, STEPS, models.device)
                with torch.profiler.profile(activities=activities) as profiler:
                    profiled, nodes = _advance(events, STEPS, models.device)
                step: dict[str, Cell] = {"prompt (tokens)": prompt.length, "step": name}
                times = {"step (ms)": 1e3 * alone / STEPS, "under the profiler (ms)": 1e3 * profiled / STEPS}
                steps.append({**step, "nodes": nodes, **times})
                parts += ({**step, **part} for part in _attribute(profiled, profiler.events() or (), on_gpu=on_gpu))
                if setting.traces is not None:
                    setting.traces.mkdir(parents=True, exist_ok=True)
                    trace = setting.traces / f"trace-{name}-{format_length(prompt.length)}.json.gz"
                    profiler.export_chrome_trace(str(trace))
    note = (
        "Profiling costs time for every operation it records, so small operations and calling them look larger below "
        "than they are, by the difference."
    )
    about_parts = (
        "Verification: products, attention, small operations (norms, RoPE, activations, sums, copies), and the time "
        "between them, which is Python and transformers calling them. Drafting holds the draft's own."
    )
    if on_gpu:
        about_parts += " Milliseconds are the host's, which may only be waiting; the last column is the GPU's own work."
    tables = (Table.of("Steps", steps, note), Table.of("Where the time goes", parts, about_parts))
    return Experiment("profile", "Where does the time of a step go?", tables)


def _name_calls(of: object, names: dict[str, str]) -> None:
    for method, name in names.items():
        setattr(of, method, record_function(name)(getattr(of, method)))


def _decoding(setting: Setting, target: Prefilled, recipe: Recipe, prompt: Prompt) -> Iterator[Event | Run]:
    drafter = recipe.drafter(target)
    if recipe.shape.nodes > 1:  # what a drafter observes, it reads when it drafts: observing counts as drafting
        _name_calls(drafter, {"observe": DRAFTING, "propose": DRAFTING, "retrieve": CHOOSING, "visible": CHOOSING})
    decoding = replace(setting.decoding, tokens=_tokens(recipe.shape), eos=frozenset())
    return measured(target, drafter, prompt.tokens, decoding, recipe.retrieval, DraftGate(recipe.shape, enabled=False))


def _tokens(shape: TreeShape) -> int:
    """More than all steps can emit."""
    return (_WARM_UP + 2 * STEPS + 1) * (shape.depth + 1) + 1


def _advance(events: Iterator[Event | Run], steps: int, device: torch.device) -> tuple[float, float]:
    """Seconds of that many steps, and the mean of their nodes."""
    wait(device)
    began, nodes = perf_counter(), 0
    for _ in range(steps):
        nodes += next(event.nodes for event in events if isinstance(event, Step) and event.nodes)
    wait(device)
    return perf_counter() - began, nodes / steps


def _attribute(profiled: float, events: Sequence[FunctionEvent], *, on_gpu: bool) -> Iterator[dict[str, Cell]]:
    """The rows of a kind of step that took `profiled` seconds in all.

    Every outermost operation belongs to one kind, with everything it calls.
    """
    host, device, calls = Counter[str](), Counter[str](), Counter[str]()  # microseconds
    for event in events:
        if event.device_type.name != "CPU" or event.is_async:
            continue
        parent = event.cpu_parent.name if event.cpu_parent is not None else None
        if parent is None and event.name == _VERIFYING:
            host[CALLS] += event.self_cpu_time_total
        elif parent == _VERIFYING or (parent is None and event.name in KINDS):
            is_product = event.name.rpartition("::")[2].startswith(_PRODUCTS)
            kind = event.name if event.name in KINDS else PRODUCTS if is_product else SMALL
            host[kind] += event.cpu_time_total
            device[kind] += event.device_time_total
            calls[kind] += 1
        elif parent is None:
            device[REST] += event.device_time_total
            calls[REST] += 1
    host[REST] = max(1e6 * profiled - sum(host.values()), 0.0)  # type: ignore[assignment]
    for kind in filter(host.__getitem__, KINDS):
        yield {
            "what": kind,
            "ms a step": host[kind] / 1e3 / STEPS,
            "share": host[kind] / (1e6 * profiled),
            "calls a step": calls[kind] / STEPS,
            **({"on the GPU (ms)": device[kind] / 1e3 / STEPS} if on_gpu else {}),
        }
