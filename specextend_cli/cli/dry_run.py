"""`specextend summarize --dry-run`: size, prompts, time and memory of a summary, without loading a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from functools import partial

from specextend_cli.cli.failures import Failures
from specextend_cli.cli.inputs import Source
from specextend_cli.humanize import format_bytes
from specextend_cli.models.choice import Choice
from specextend_cli.models.memory import estimate, fits
from specextend_cli.runtime.machine import this_machine
from specextend_cli.summarize.summarizer import Summarizer
from specextend_cli.ui.output import Output
from specextend_cli.ui.tables import PlanRow, plan_table


def print_plans(
    output: Output, summarizer: Summarizer, inputs: Sequence[Source], *, as_json: bool, choice: Choice
) -> None:
    """Plan every input; print the plans on stdout, and on stderr which model they are for, where none was named."""

    rows: list[PlanRow] = []
    failures = Failures(output, len(inputs), alone=len(inputs) == 1)
    preset, machine, mode = summarizer.preset, this_machine(), summarizer.settings.mode
    on_cpu = machine.device == "cpu"
    need = None if mode == "extractive" else estimate(preset, on_cpu=on_cpu)

    def add(source: Source) -> None:
        plan = summarizer.plan(source.read_shown(output))
        rows.append(PlanRow.of(source.name, plan, need.total if need else None))

    for source in inputs:
        failures.attempt(source, partial(add, source))
    if need is not None and fits(preset, machine.free, on_cpu=on_cpu) is False:
        free = format_bytes(machine.free)
        output.warn(f"{preset.name} needs about {format_bytes(need.total)} of memory; {free} are free")
    if choice.reason != "named":
        output.status(f"mode {mode}" if mode == "extractive" else f"mode {mode}, model {choice.preset}")
    if as_json:
        records = [{**asdict(row), "mode": mode, "preset": preset.name} for row in rows]
        output.write_json(records[0] if len(inputs) == 1 else records)
    elif rows:
        output.show(plan_table(rows))
    failures.report()
