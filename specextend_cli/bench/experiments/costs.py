"""Milliseconds of a step by prompt length, nodes and working set, beside the roofline's lower bound."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from itertools import groupby
from statistics import median, quantiles
from typing import NamedTuple

from specextend_cli.bench import roofline
from specextend_cli.bench.events import Running, Working
from specextend_cli.bench.experiments.study import Setting, Study
from specextend_cli.bench.prefilled import Prefilled
from specextend_cli.bench.records import format_length
from specextend_cli.bench.roofline import Roofline, Work, work
from specextend_cli.bench.steps import Plan, Steps
from specextend_cli.bench.tables import Cell, LinePlot, Point, Table
from specextend_cli.engine.drafters.model import ModelDrafter

NODES = (1, 2, 4, 8, 16, 32)
WORKING = (64, 128, 256, 512, 1024, 2048, 4096, 8192)
ROUNDS = 15
SCALE = 1.0  # of the roofline's buffer and matrix


class _Costs(NamedTuple):
    """Steps after a prompt of one length, their least work by nodes, and what the machine could do just before."""

    length: int
    steps: Steps
    works: Mapping[int, Work]
    machine: Roofline

    def floor(self, nodes: int) -> float:
        """Seconds that a verification needs at least."""
        return self.works[nodes].seconds(self.machine)


def _measure(setting: Setting) -> Generator[Running, None, list[_Costs]]:
    """One prompt a length."""
    models, decoding = setting.models, setting.decoding
    found = []
    for length, prompts in groupby(setting.prompts, key=lambda prompt: prompt.length):
        prompt = next(iter(prompts))
        working = (*(size for size in WORKING if size < length), length)  # the last one shows everything
        plan = Plan(NODES, working, models.preset.tree, ROUNDS, decoding.prefill_chunk, decoding.sampling)
        with models.fitted(length + plan.room):
            machine = roofline.measure(models.device, models.dtype, scale=SCALE)
            target = Prefilled(models.lm, score_layers=models.retrieval.layers)
            drafter = models.drafter(models.attending, target, models.under("retrieval"))
            assert isinstance(drafter, ModelDrafter)
            steps = Steps(target, drafter, plan)
            for rounds in steps.measure(prompt.tokens):
                yield Working(f"costs · {format_length(length)} {prompt.document}", rounds, plan.rounds)
        found.append(_Costs(length, steps, {nodes: work(models.lm, length, nodes) for nodes in NODES}, machine))
    return found


def _tables(setting: Setting, found: Sequence[_Costs]) -> Iterator[Table]:
    columns: Mapping[str, Callable[[_Costs], Cell]] = {
        "prompt (tokens)": lambda costs: costs.length,
        "plain step (ms)": lambda costs: 1e3 * costs.steps.plain,
        "weights (MB)": lambda costs: costs.works[1].weights / 1e6,
        "keys and values (MB)": lambda costs: costs.works[1].rows / 1e6,
        "memory (GB/s)": lambda costs: costs.machine.bandwidth / 1e9,
        "products (TFLOP/s)": lambda costs: costs.machine.arithmetic / 1e12,
        "reading (ms)": lambda costs: 1e3 * costs.works[1].reading(costs.machine),
        "multiplying (ms)": lambda costs: 1e3 * costs.works[1].multiplying(costs.machine),
        "step, times the floor": lambda costs: costs.steps.plain / costs.floor(1),
    }
    note = (
        "Medians. Memory and products are the best that this machine reached just before. Reading: what a step reads "
        "at least, at that speed; multiplying likewise; the floor is the longer of the two."
    )
    yield Table.of("A plain step and its floor", found, columns, note)
    header = ("step (ms)", "lower quartile", "upper quartile", "times a plain step", "floor (ms)")
    verifying = [(costs, nodes, times) for costs in found for nodes, times in costs.steps.verifying.items()]
    yield Table(
        "Verification by nodes",
        ("prompt (tokens)", "nodes", *header),
        tuple(
            (costs.length, *_point(nodes, times), median(times) / costs.steps.plain, 1e3 * costs.floor(nodes))
            for costs, nodes, times in verifying
        ),
        "Times a plain step: as many tokens a step must bring to break even, before drafting itself is paid.",
    )
    shape = setting.models.preset.tree
    drafting = [(costs.length, costs.steps, *sized) for costs in found for sized in costs.steps.drafting.items()]
    yield Table(
        "Drafting by working set",
        ("prompt (tokens)", "working set (tokens)", "drafting (ms)", "times a plain step", "choosing the set (ms)"),
        tuple(
            (length, size, 1e3 * median(times), median(times) / steps.plain, 1e3 * median(steps.choosing[size]))
            for length, steps, size, times in drafting
        ),
        f"{setting.models.attending} drafts {shape.depth} levels of {shape.width}. The last row of a length shows it "
        "everything. Choosing: the target's attention, and moving the chosen keys.",
    )


def _point(x: int, times: Sequence[float]) -> Point:
    """The median in milliseconds, and the quartiles."""
    low, middle, high = (1e3 * quartile for quartile in quantiles(times, n=4))
    return Point(x, middle, low, high)


def _plots(setting: Setting, found: Sequence[_Costs]) -> Iterator[LinePlot]:
    def plot(title: str, x_label: str, lines: Mapping[str, Sequence[Point]]) -> LinePlot:
        return LinePlot(title, x_label, "milliseconds", lines, "Error bars: quartiles over rounds.")

    def by_size(what: str) -> dict[str, list[Point]]:
        sized = {costs.length: getattr(costs.steps, what).items() for costs in found}
        return {f"{format_length(length)} tokens": [_point(*one) for one in of] for length, of in sized.items()}

    by_length = {
        f"{nodes} nodes" if nodes > 1 else "plain step": [
            _point(costs.length, costs.steps.verifying[nodes]) for costs in found
        ]
        for nodes in (1, 8, 32)
    }
    floor = {"floor of a plain step": [Point(costs.length, 1e3 * costs.floor(1)) for costs in found]}
    yield plot("Cost of a step by prompt", "prompt (tokens)", by_length | floor)
    longest = found[-1]
    floor = {f"floor at {format_length(longest.length)}": [Point(n, 1e3 * longest.floor(n)) for n in NODES]}
    yield plot("Cost of a step by nodes", "nodes", by_size("verifying") | floor)
    yield plot("Cost of a draft by working set", "working set (tokens)", by_size("drafting"))


STUDY = Study("What does a step cost, and what must it cost at least?", measure=_measure, tables=_tables, plots=_plots)
