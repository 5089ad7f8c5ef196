"""Milliseconds of a step by prompt length, nodes and working set, beside the roofline's lower bound."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
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
from specextend_cli.bench.tables import Table
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
    plain = (
        {
            "prompt (tokens)": costs.length,
            "plain step (ms)": 1e3 * costs.steps.plain,
            "weights (MB)": costs.works[1].weights / 1e6,
            "keys and values (MB)": costs.works[1].rows / 1e6,
            "memory (GB/s)": costs.machine.bandwidth / 1e9,
            "products (TFLOP/s)": costs.machine.arithmetic / 1e12,
            "reading (ms)": 1e3 * costs.works[1].reading(costs.machine),
            "multiplying (ms)": 1e3 * costs.works[1].multiplying(costs.machine),
            "step, times the floor": costs.steps.plain / costs.works[1].seconds(costs.machine),
        }
        for costs in found
    )
    note = (
        "Medians. Memory and products are the best that this machine reached just before. Reading: what a step reads "
        "at least, at that speed; multiplying likewise; the floor is the longer of the two."
    )
    yield Table.of("A plain step and its floor", plain, note)
    verifying = (
        {
            "prompt (tokens)": costs.length,
            "nodes": nodes,
            "step (ms)": 1e3 * median(times),
            "lower quartile": 1e3 * quantiles(times)[0],
            "upper quartile": 1e3 * quantiles(times)[2],
            "times a plain step": median(times) / costs.steps.plain,
            "floor (ms)": 1e3 * costs.works[nodes].seconds(costs.machine),
        }
        for costs in found
        for nodes, times in costs.steps.verifying.items()
    )
    note = "Times a plain step: as many tokens a step must bring to break even, before drafting itself is paid."
    yield Table.of("Verification by nodes", verifying, note)
    shape = setting.models.preset.tree
    drafting = (
        {
            "prompt (tokens)": costs.length,
            "working set (tokens)": size,
            "drafting (ms)": 1e3 * median(times),
            "times a plain step": median(times) / costs.steps.plain,
            "choosing the set (ms)": 1e3 * median(costs.steps.choosing[size]),
        }
        for costs in found
        for size, times in costs.steps.drafting.items()
    )
    note = (
        f"{setting.models.attending} drafts {shape.depth} levels of {shape.width}. The last row of a length shows it "
        "everything. Choosing: the target's attention, and moving the chosen keys."
    )
    yield Table.of("Drafting by working set", drafting, note)


STUDY = Study("What does a step cost, and what must it cost at least?", measure=_measure, tables=_tables)
