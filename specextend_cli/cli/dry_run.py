"""`specextend summarize --dry-run`: size, prompts, time and memory of a summary, without loading a model."""

from __future__ import annotations

from dataclasses import replace

from specextend_cli.cli.failures import Failures
from specextend_cli.cli.inputs import Source
from specextend_cli.humanize import format_bytes
from specextend_cli.models.memory import estimate
from specextend_cli.models.sources import is_present
from specextend_cli.runtime.devices import this_machine
from specextend_cli.summarize.events import Plan
from specextend_cli.summarize.request import Request
from specextend_cli.summarize.summarizer import Summarizer
from specextend_cli.ui.output import Output
from specextend_cli.ui.tables import plan_table


def print_plans(output: Output, summarizer: Summarizer, request: Request, inputs: list[Source], *, json: bool) -> None:
    """Plan every input; print the plans on stdout, and on stderr which model they are for."""
    plans: list[Plan] = []
    failures = Failures(output, len(inputs), alone=len(inputs) == 1)
    preset, machine, mode = summarizer.preset, this_machine(), summarizer.mode(request)
    on_cpu = machine.device == "cpu"
    need = None if mode == "extractive" else estimate(preset, on_cpu=on_cpu)
    if not (mode == "extractive" or summarizer.engine.offline or is_present(preset)):
        output.status(f"fetching {preset.name}, whose tokenizer counts")

    def add(source: Source) -> None:
        plans.append(replace(summarizer.plan(source.read_shown(output), request), document=source.name))

    for source in inputs:
        failures.attempt(source, add)
    if need is not None and not machine.holds(need):
        free = format_bytes(machine.free)
        output.warn(f"{preset.name} needs about {format_bytes(need)} of memory; {free} are free")
    output.status(
        f"mode {mode}" if mode == "extractive" else f"mode {mode}, model {summarizer.engine.model or preset.name}"
    )
    if json:
        names = ("document", "unit", "pages", "words", "prompts", "levels", "seconds")
        made = {"memory": need, "mode": mode, "preset": preset.name}
        records = [{**{name: getattr(plan, name) for name in names}, **made} for plan in plans]
        output.write_json(records[0] if len(inputs) == 1 else records)
    elif plans:
        output.show(plan_table(plans, need))
    failures.report()
