"""What a step costs against its length, its nodes and the draft's working set, beside what it must cost at least."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import median, quantiles

from specextend_cli.bench.ceilings import Ceilings
from specextend_cli.bench.ceilings import measure as measure_ceilings
from specextend_cli.bench.events import Decoding, Reading, Running
from specextend_cli.bench.experiments.setting import Run, Setting, changed
from specextend_cli.bench.floor import work
from specextend_cli.bench.lengths import format_length
from specextend_cli.bench.prefilled import Prefilled
from specextend_cli.bench.steps import Plan, Steps, measure
from specextend_cli.bench.tables import Cell, Experiment, LinePlot, Plot, Point, Series, Table
from specextend_cli.bench.workloads import Prompt
from specextend_cli.engine.drafters.model import ModelDrafter

NODES = (1, 2, 4, 8, 16, 32)
WORKING = (64, 128, 256, 512, 1024, 2048, 4096, 8192)
ROUNDS = 15
CEILING = 1.0  # of the sizes that ceilings are measured with


@dataclass(frozen=True)
class _Costs:
    """Steps behind one length, and what the machine could do just before."""

    steps: Steps
    ceilings: Ceilings

    @property
    def length(self) -> int:
        return self.steps.length


def run(setting: Setting) -> Run:
    """On one prompt a length."""
    models, found = setting.models, []
    for length, prompts in groupby(setting.prompts, key=lambda prompt: prompt.length):
        plan = _plan(setting, length)
        with models.fitted(length + plan.room):
            ceilings = measure_ceilings(models.device, models.dtype, scale=CEILING)
            steps = Steps(length)
            yield from _measure(setting, next(iter(prompts)), plan, steps)
        found.append(_Costs(steps, ceilings))
    tables = (_plain(setting, found), _verifying(setting, found), _drafting(setting, found))
    return Experiment("costs", "What does a step cost, and what must it cost at least?", tables, _plots(setting, found))


def _measure(setting: Setting, prompt: Prompt, plan: Plan, steps: Steps) -> Iterator[Running]:
    models = setting.models
    target = Prefilled(models.lm, score_layers=models.retrieval.layers)
    drafter = models.drafter(models.attending, target, changed(models.retrieval, policy="retrieval"))
    assert isinstance(drafter, ModelDrafter)
    for read, rounds in measure(target, drafter, prompt.tokens, plan, steps):
        if read < prompt.length:
            yield Reading(prompt.document, prompt.length, read)
        else:
            yield Decoding("costs", prompt.document, prompt.length, 0, rounds, plan.rounds)


def _plan(setting: Setting, length: int) -> Plan:
    """Working sets that hide something, and one that does not."""
    working = (*(size for size in WORKING if size < length), length)
    decoding = setting.decoding
    return Plan(NODES, working, setting.models.shape, ROUNDS, decoding.prefill_chunk, decoding.sampling)


def _plain(setting: Setting, found: Sequence[_Costs]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for costs in found:
        least = work(setting.models.lm, costs.length, 1)
        rows.append(
            (
                costs.length,
                1e3 * costs.steps.plain,
                least.weights / 1e6,
                least.rows / 1e6,
                costs.ceilings.bandwidth / 1e9,
                costs.ceilings.arithmetic / 1e12,
                1e3 * least.reading(costs.ceilings),
                1e3 * least.multiplying(costs.ceilings),
                costs.steps.plain / least.floor(costs.ceilings),
            )
        )
    header = (
        "prompt (tokens)",
        "plain step (ms)",
        "weights (MB)",
        "keys and values (MB)",
        "memory (GB/s)",
        "products (TFLOP/s)",
        "reading (ms)",
        "multiplying (ms)",
        "step, times the floor",
    )
    note = (
        "Medians. Memory and products are the best that this machine reached just before. Reading: what a step reads "
        "at least, at that speed; multiplying likewise; the floor is the longer of the two."
    )
    return Table("A plain step and its floor", header, tuple(rows), note)


def _verifying(setting: Setting, found: Sequence[_Costs]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for costs in found:
        for nodes, times in costs.steps.verifying.items():
            floor = work(setting.models.lm, costs.length, nodes).floor(costs.ceilings)
            low, middle, high = quantiles(times, n=4)
            rows.append(
                (costs.length, nodes, 1e3 * middle, 1e3 * low, 1e3 * high, middle / costs.steps.plain, 1e3 * floor)
            )
    header = (
        "prompt (tokens)",
        "nodes",
        "step (ms)",
        "lower quartile",
        "upper quartile",
        "times a plain step",
        "floor (ms)",
    )
    note = "Times a plain step: as many tokens a step must bring to break even, before drafting itself is paid."
    return Table("Verification by nodes", header, tuple(rows), note)


def _drafting(setting: Setting, found: Sequence[_Costs]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for costs in found:
        for size, times in costs.steps.drafting.items():
            chosen = median(costs.steps.choosing[size])
            rows.append((costs.length, size, 1e3 * median(times), median(times) / costs.steps.plain, 1e3 * chosen))
    shape = setting.models.shape
    header = (
        "prompt (tokens)",
        "working set (tokens)",
        "drafting (ms)",
        "times a plain step",
        "choosing the set (ms)",
    )
    note = (
        f"{setting.models.attending} drafts {shape.depth} levels of {shape.width}. The last row of a length shows it "
        "everything. Choosing: the target's attention, and moving the chosen keys."
    )
    return Table("Drafting by working set", header, tuple(rows), note)


def _plots(setting: Setting, found: Sequence[_Costs]) -> tuple[Plot, ...]:
    lm = setting.models.lm
    steps = {
        f"{nodes} nodes" if nodes > 1 else "plain step": tuple(
            _point(costs.length, costs.steps.verifying[nodes]) for costs in found
        )
        for nodes in (1, 8, 32)
    }
    floors = tuple(Point(costs.length, 1e3 * work(lm, costs.length, 1).floor(costs.ceilings)) for costs in found)
    by_length = {**steps, "floor of a plain step": floors}
    by_nodes = {
        f"{format_length(costs.length)} tokens": tuple(
            _point(nodes, times) for nodes, times in costs.steps.verifying.items()
        )
        for costs in found
    }
    longest = found[-1]
    by_nodes[f"floor at {format_length(longest.length)}"] = tuple(
        Point(nodes, 1e3 * work(lm, longest.length, nodes).floor(longest.ceilings)) for nodes in NODES
    )
    by_working = {
        f"{format_length(costs.length)} tokens": tuple(
            _point(size, times) for size, times in costs.steps.drafting.items()
        )
        for costs in found
    }
    return (
        _lines("Cost of a step by prompt", "prompt (tokens)", by_length),
        _lines("Cost of a step by nodes", "nodes", by_nodes),
        _lines("Cost of a draft by working set", "working set (tokens)", by_working),
    )


def _lines(title: str, x_label: str, lines: dict[str, tuple[Point, ...]]) -> LinePlot:
    series = tuple(Series(name, points) for name, points in lines.items())
    return LinePlot(title, x_label, "milliseconds", series, log_x=True, note="Whiskers: quartiles over rounds.")


def _point(x: int, times: Sequence[float]) -> Point:
    low, middle, high = quantiles(times, n=4)
    return Point(x, 1e3 * middle, 1e3 * low, 1e3 * high)
