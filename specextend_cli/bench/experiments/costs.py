"""Milliseconds of a step by prompt length, nodes and working set, beside the roofline's lower bound."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from itertools import groupby
from statistics import median, quantiles
from typing import NamedTuple, TypeAlias

from specextend_cli.bench import roofline
from specextend_cli.bench.events import Decoding, Reading, Running
from specextend_cli.bench.experiments.study import Setting, Study
from specextend_cli.bench.prefilled import Prefilled
from specextend_cli.bench.recipes import with_policy
from specextend_cli.bench.records import format_length
from specextend_cli.bench.roofline import Roofline, work
from specextend_cli.bench.steps import Plan, Steps, measure
from specextend_cli.bench.tables import LinePlot, Point, Series, Table
from specextend_cli.engine.drafters.model import ModelDrafter

NODES = (1, 2, 4, 8, 16, 32)
WORKING = (64, 128, 256, 512, 1024, 2048, 4096, 8192)
ROUNDS = 15
SCALE = 1.0  # of the roofline's buffer and matrix


class _Costs(NamedTuple):
    """Steps after a prompt of one length, and what the machine could do just before."""

    steps: Steps
    machine: Roofline


_Found: TypeAlias = dict[int, _Costs]
"""By prompt length."""


def _measure(setting: Setting) -> Generator[Running, None, _Found]:
    """One prompt a length."""
    models, decoding = setting.models, setting.decoding
    found: _Found = {}
    for length, prompts in groupby(setting.prompts, key=lambda prompt: prompt.length):
        prompt, steps = next(iter(prompts)), Steps(length)
        working = (*(size for size in WORKING if size < length), length)  # the last one shows everything
        plan = Plan(NODES, working, models.shape, ROUNDS, decoding.prefill_chunk, decoding.sampling)
        with models.fitted(length + plan.room):
            machine = roofline.measure(models.device, models.dtype, scale=SCALE)
            target = Prefilled(models.lm, score_layers=models.retrieval.layers)
            drafter = models.drafter(models.attending, target, with_policy(models, "retrieval"))
            assert isinstance(drafter, ModelDrafter)
            for read, rounds in measure(target, drafter, prompt.tokens, plan, steps):
                if read < length:
                    yield Reading(prompt.document, length, read)
                else:
                    yield Decoding("costs", prompt.document, length, 0, rounds, plan.rounds)
        found[length] = _Costs(steps, machine)
    return found


def _tables(setting: Setting, found: _Found) -> Iterator[Table]:
    models = setting.models

    def plain(length: int, steps: Steps, machine: Roofline) -> tuple[float, ...]:
        least = work(models.lm, length, 1)
        return (
            length,
            1e3 * steps.plain,
            least.weights / 1e6,
            least.rows / 1e6,
            machine.bandwidth / 1e9,
            machine.arithmetic / 1e12,
            1e3 * least.reading(machine),
            1e3 * least.multiplying(machine),
            steps.plain / least.seconds(machine),
        )

    yield Table(
        "A plain step and its floor",
        (
            "prompt (tokens)",
            "plain step (ms)",
            "weights (MB)",
            "keys and values (MB)",
            "memory (GB/s)",
            "products (TFLOP/s)",
            "reading (ms)",
            "multiplying (ms)",
            "step, times the floor",
        ),
        tuple(plain(length, *costs) for length, costs in found.items()),
        "Medians. Memory and products are the best that this machine reached just before. Reading: what a step reads "
        "at least, at that speed; multiplying likewise; the floor is the longer of the two.",
    )
    yield Table(
        "Verification by nodes",
        (
            "prompt (tokens)",
            "nodes",
            "step (ms)",
            "lower quartile",
            "upper quartile",
            "times a plain step",
            "floor (ms)",
        ),
        tuple(
            (
                length,
                nodes,
                1e3 * middle,
                1e3 * low,
                1e3 * high,
                middle / steps.plain,
                1e3 * work(models.lm, length, nodes).seconds(machine),
            )
            for length, (steps, machine) in found.items()
            for nodes, times in steps.verifying.items()
            for low, middle, high in [quantiles(times, n=4)]
        ),
        "Times a plain step: as many tokens a step must bring to break even, before drafting itself is paid.",
    )
    yield Table(
        "Drafting by working set",
        (
            "prompt (tokens)",
            "working set (tokens)",
            "drafting (ms)",
            "times a plain step",
            "choosing the set (ms)",
        ),
        tuple(
            (length, size, 1e3 * median(times), median(times) / steps.plain, 1e3 * median(steps.choosing[size]))
            for length, (steps, _) in found.items()
            for size, times in steps.drafting.items()
        ),
        f"{models.attending} drafts {models.shape.depth} levels of {models.shape.width}. The last row of a length "
        "shows it everything. Choosing: the target's attention, and moving the chosen keys.",
    )


def _plots(setting: Setting, found: _Found) -> Iterator[LinePlot]:
    def floor(length: int, nodes: int) -> float:
        return 1e3 * work(setting.models.lm, length, nodes).seconds(found[length].machine)

    yield _lines(
        "Cost of a step by prompt",
        "prompt (tokens)",
        {
            f"{nodes} nodes" if nodes > 1 else "plain step": [
                _point(length, costs.steps.verifying[nodes]) for length, costs in found.items()
            ]
            for nodes in (1, 8, 32)
        }
        | {"floor of a plain step": [Point(length, floor(length, 1)) for length in found]},
    )
    longest = max(found)
    yield _lines(
        "Cost of a step by nodes",
        "nodes",
        _by_length(found, "verifying")
        | {f"floor at {format_length(longest)}": [Point(nodes, floor(longest, nodes)) for nodes in NODES]},
    )
    yield _lines("Cost of a draft by working set", "working set (tokens)", _by_length(found, "drafting"))


def _by_length(found: _Found, what: str) -> dict[str, Sequence[Point]]:
    return {
        f"{format_length(length)} tokens": [_point(size, times) for size, times in getattr(costs.steps, what).items()]
        for length, costs in found.items()
    }


def _lines(title: str, x_label: str, lines: Mapping[str, Sequence[Point]]) -> LinePlot:
    series = tuple(Series(name, tuple(points)) for name, points in lines.items())
    return LinePlot(title, x_label, "milliseconds", series, log_x=True, note="Error bars: quartiles over rounds.")


def _point(x: int, times: Sequence[float]) -> Point:
    low, middle, high = quantiles(times, n=4)
    return Point(x, 1e3 * middle, 1e3 * low, 1e3 * high)


STUDY = Study("What does a step cost, and what must it cost at least?", measure=_measure, tables=_tables, plots=_plots)
