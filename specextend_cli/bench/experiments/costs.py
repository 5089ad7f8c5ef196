"""Milliseconds of a step by prompt length, nodes and working set, beside the roofline's lower bound."""

from __future__ import annotations

from collections.abc import Generator
from statistics import median, quantiles

from specextend_cli.bench import roofline
from specextend_cli.bench.events import Running, Working
from specextend_cli.bench.prefilled import Prefilled
from specextend_cli.bench.records import format_length
from specextend_cli.bench.roofline import work
from specextend_cli.bench.setting import Setting
from specextend_cli.bench.steps import Plan, Steps
from specextend_cli.bench.tables import Cell, Experiment, Table
from specextend_cli.engine.drafters.model import ModelDrafter

NODES = (1, 2, 4, 8, 16, 32)
WORKING = (64, 128, 256, 512, 1024, 2048, 4096, 8192)
ROUNDS = 15
SCALE = 1.0  # of the roofline's buffer and matrix
_PLAIN = (
    "Medians. Memory and products are the best that this machine reached just before. Reading: what a step reads "
    "at least, at that speed; multiplying likewise; the floor is the longer of the two."
)
_VERIFYING = "Times a plain step: as many tokens a step must bring to break even, before drafting itself is paid."


def costs(setting: Setting) -> Generator[Running, None, Experiment]:
    """One prompt a length."""
    models, decoding = setting.models, setting.decoding
    plain, verifying, drafting = list[dict[str, Cell]](), list[dict[str, Cell]](), list[dict[str, Cell]]()
    for prompt in setting.one_a_length:
        length = prompt.length
        working = (*(size for size in WORKING if size < length), length)  # the last one shows everything
        plan = Plan(NODES, working, models.tree, ROUNDS, decoding.prefill_chunk, decoding.sampling)
        with models.fitted(length + plan.room):
            machine = roofline.measure(models.device, models.dtype, scale=SCALE)
            target = Prefilled(models.lm, score_layers=models.retrieval.layers)
            drafter = models.drafter(models.attending, target, models.under("retrieval"))
            assert isinstance(drafter, ModelDrafter)
            steps = Steps(target, drafter, plan)
            for rounds in steps.measure(prompt.tokens):
                yield Working(f"costs · {format_length(length)} {prompt.document}", rounds, plan.rounds)
        least = work(models.lm, length, 1)
        plain.append(
            {
                "prompt (tokens)": length,
                "plain step (ms)": 1e3 * steps.plain,
                "weights (MB)": least.weights / 1e6,
                "keys and values (MB)": least.rows / 1e6,
                "memory (GB/s)": machine.bandwidth / 1e9,
                "products (TFLOP/s)": machine.arithmetic / 1e12,
                "reading (ms)": 1e3 * least.reading(machine),
                "multiplying (ms)": 1e3 * least.multiplying(machine),
                "step, times the floor": steps.plain / least.seconds(machine),
            }
        )
        verifying += (
            {
                "prompt (tokens)": length,
                "nodes": nodes,
                "step (ms)": 1e3 * median(times),
                "lower quartile": 1e3 * quantiles(times)[0],
                "upper quartile": 1e3 * quantiles(times)[2],
                "times a plain step": median(times) / steps.plain,
                "floor (ms)": 1e3 * work(models.lm, length, nodes).seconds(machine),
            }
            for nodes, times in steps.verifying.items()
        )
        drafting += (
            {
                "prompt (tokens)": length,
                "working set (tokens)": size,
                "drafting (ms)": 1e3 * median(times),
                "times a plain step": median(times) / steps.plain,
                "choosing the set (ms)": 1e3 * median(steps.choosing[size]),
            }
            for size, times in steps.drafting.items()
        )
    shape = models.tree
    note = (
        f"{models.attending} drafts {shape.depth} levels of {shape.width}. The last row of a length shows it "
        "everything. Choosing: the target's attention, and moving the chosen keys."
    )
    return Experiment(
        "costs",
        "What does a step cost, and what must it cost at least?",
        (
            Table.of("A plain step and its floor", plain, _PLAIN),
            Table.of("Verification by nodes", verifying, _VERIFYING),
            Table.of("Drafting by working set", drafting, note),
        ),
    )
