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
from specextend_cli.engine.lm import LanguageModel

NODES = (1, 2, 4, 8, 16, 32)
WORKING = (64, 128, 256, 512, 1024, 2048, 4096, 8192)
ROUNDS = 15
SCALE = 1.0  # of the roofline's buffer and matrix


class _Costs(NamedTuple):
    """Steps after a prompt of one length, and what the machine could do just before."""

    lm: LanguageModel
    length: int
    steps: Steps
    machine: Roofline

    def work(self, nodes: int) -> Work:
        """What a verification reads and multiplies at least."""
        return work(self.lm, self.length, nodes)

    def floor(self, nodes: int) -> float:
        """Seconds that a verification needs at least."""
        return self.work(nodes).seconds(self.machine)


class _Sized(NamedTuple):
    """Times of one size: nodes, or tokens of a working set."""

    costs: _Costs
    size: int
    times: Sequence[float]


def _measure(setting: Setting) -> Generator[Running, None, list[_Costs]]:
    """One prompt a length."""
    models, decoding = setting.models, setting.decoding
    found = []
    for length, prompts in groupby(setting.prompts, key=lambda prompt: prompt.length):
        prompt = next(iter(prompts))
        working = (*(size for size in WORKING if size < length), length)  # the last one shows everything
        plan = Plan(NODES, working, models.shape, ROUNDS, decoding.prefill_chunk, decoding.sampling)
        with models.fitted(length + plan.room):
            machine = roofline.measure(models.device, models.dtype, scale=SCALE)
            target = Prefilled(models.lm, score_layers=models.retrieval.layers)
            drafter = models.drafter(models.attending, target, models.under("retrieval"))
            assert isinstance(drafter, ModelDrafter)
            steps = Steps(target, drafter, plan)
            for rounds in steps.measure(prompt.tokens):
                yield Working(f"costs · {format_length(length)} {prompt.document}", rounds, plan.rounds)
        found.append(_Costs(models.lm, length, steps, machine))
    return found


def _tables(setting: Setting, found: Sequence[_Costs]) -> Iterator[Table]:
    plain: Mapping[str, Callable[[_Costs], Cell]] = {
        "prompt (tokens)": lambda costs: costs.length,
        "plain step (ms)": lambda costs: 1e3 * costs.steps.plain,
        "weights (MB)": lambda costs: costs.work(1).weights / 1e6,
        "keys and values (MB)": lambda costs: costs.work(1).rows / 1e6,
        "memory (GB/s)": lambda costs: costs.machine.bandwidth / 1e9,
        "products (TFLOP/s)": lambda costs: costs.machine.arithmetic / 1e12,
        "reading (ms)": lambda costs: 1e3 * costs.work(1).reading(costs.machine),
        "multiplying (ms)": lambda costs: 1e3 * costs.work(1).multiplying(costs.machine),
        "step, times the floor": lambda costs: costs.steps.plain / costs.floor(1),
    }
    note = (
        "Medians. Memory and products are the best that this machine reached just before. Reading: what a step reads "
        "at least, at that speed; multiplying likewise; the floor is the longer of the two."
    )
    yield Table.of("A plain step and its floor", found, plain, note)
    verifying: Mapping[str, Callable[[_Sized], Cell]] = {
        "prompt (tokens)": lambda at: at.costs.length,
        "nodes": lambda at: at.size,
        "step (ms)": lambda at: _point(at).y,
        "lower quartile": lambda at: _point(at).low,
        "upper quartile": lambda at: _point(at).high,
        "times a plain step": lambda at: median(at.times) / at.costs.steps.plain,
        "floor (ms)": lambda at: 1e3 * at.costs.floor(at.size),
    }
    note = "Times a plain step: as many tokens a step must bring to break even, before drafting itself is paid."
    yield Table.of("Verification by nodes", _sized(found, "verifying"), verifying, note)
    drafting: Mapping[str, Callable[[_Sized], Cell]] = {
        "prompt (tokens)": lambda at: at.costs.length,
        "working set (tokens)": lambda at: at.size,
        "drafting (ms)": lambda at: 1e3 * median(at.times),
        "times a plain step": lambda at: median(at.times) / at.costs.steps.plain,
        "choosing the set (ms)": lambda at: 1e3 * median(at.costs.steps.choosing[at.size]),
    }
    models = setting.models
    note = (
        f"{models.attending} drafts {models.shape.depth} levels of {models.shape.width}. The last row of a length "
        "shows it everything. Choosing: the target's attention, and moving the chosen keys."
    )
    yield Table.of("Drafting by working set", _sized(found, "drafting"), drafting, note)


def _sized(found: Sequence[_Costs], what: str) -> Iterator[_Sized]:
    for costs in found:
        yield from (_Sized(costs, size, times) for size, times in getattr(costs.steps, what).items())


def _point(at: _Sized) -> Point:
    low, middle, high = (1e3 * quartile for quartile in quantiles(at.times, n=4))
    return Point(at.size, middle, low, high)


def _plots(setting: Setting, found: Sequence[_Costs]) -> Iterator[LinePlot]:
    def plot(title: str, x_label: str, lines: Mapping[str, Sequence[Point]]) -> LinePlot:
        return LinePlot(title, x_label, "milliseconds", lines, "Error bars: quartiles over rounds.")

    def by_length(what: str) -> dict[str, list[Point]]:
        return {
            f"{format_length(costs.length)} tokens": [_point(at) for at in _sized([costs], what)] for costs in found
        }

    by_nodes = {
        f"{nodes} nodes" if nodes > 1 else "plain step": [
            _point(_Sized(costs, nodes, costs.steps.verifying[nodes]))._replace(x=costs.length) for costs in found
        ]
        for nodes in (1, 8, 32)
    }
    floor = {"floor of a plain step": [Point(costs.length, 1e3 * costs.floor(1)) for costs in found]}
    yield plot("Cost of a step by prompt", "prompt (tokens)", by_nodes | floor)
    longest = found[-1]
    floor = {f"floor at {format_length(longest.length)}": [Point(n, 1e3 * longest.floor(n)) for n in NODES]}
    yield plot("Cost of a step by nodes", "nodes", by_length("verifying") | floor)
    yield plot("Cost of a draft by working set", "working set (tokens)", by_length("drafting"))


STUDY = Study("What does a step cost, and what must it cost at least?", measure=_measure, tables=_tables, plots=_plots)
