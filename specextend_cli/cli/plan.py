"""`specextend plan FILES…`: what a summary takes, without loading a model."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, replace
from functools import partial
from typing import TYPE_CHECKING

from specextend_cli.cli import options
from specextend_cli.cli.failures import attempt, report
from specextend_cli.cli.inputs import sources
from specextend_cli.cli.model_choice import QUOTING, announcement, chosen_model, without_choice
from specextend_cli.cli.options import AUTO
from specextend_cli.cli.source import Documents, Source
from specextend_cli.humanize import format_bytes

if TYPE_CHECKING:
    from specextend_cli.errors import SpecextendError
    from specextend_cli.models.choice import Choice
    from specextend_cli.summarize.events import Plan
    from specextend_cli.summarize.summarizer import Summarizer
    from specextend_cli.ui.output import Output


def plan(
    *,
    files: options.Files = None,
    length: options.LengthOption = None,
    style: options.StyleOption = None,
    mode: options.ModeOption = None,
    max_tokens: options.MaxTokens = None,
    model: options.Model = None,
    json: options.Json = False,
    reading: options.ReadOptions,
    files_from: options.FilesFrom = None,
    offline: options.Offline = False,
) -> None:
    """Show size, prompts, time and memory of a summary without loading a model.

    The time is for reading and writing, estimated from the preset's earlier runs. It excludes loading and ignores
    stored chunk summaries.

    Example:
      specextend plan *.pdf
    """

    from specextend_cli.summarize.request import SummaryRequest
    from specextend_cli.summarize.summarizer import Options, Summarizer
    from specextend_cli.ui.output import Output

    output = Output()
    inputs = sources(files, reading, example="specextend plan FILES…", listed=files_from, offline=offline)
    documents = Documents(output)
    if model in (None, AUTO) and mode in QUOTING:
        choice = without_choice(mode)
    else:
        choice = chosen_model(model, tokens=partial(documents.tokens, inputs))
    wanted = Options(
        request=SummaryRequest(length=options.length(length), style=style, mode=mode),
        preset=choice.preset,
        max_tokens=max_tokens,
        offline=offline,
    )
    with closing(Summarizer(wanted)) as summarizer:
        print_plans(output, summarizer, inputs, as_json=json, choice=choice)


def print_plans(
    output: Output, summarizer: Summarizer, inputs: Sequence[Source], *, as_json: bool, choice: Choice
) -> None:
    """Plan every input and print the plans on stdout, and on stderr which model it is for, where none was named.

    The error of a single input is raised; failures of several become a PartialError.
    """
    from specextend_cli.models.memory import estimate, fits
    from specextend_cli.runtime.machine import this_machine
    from specextend_cli.ui.tables import plan_table

    plans: list[Plan] = []
    failures: list[tuple[Source, SpecextendError]] = []

    def add(source: Source) -> None:
        plans.append(replace(summarizer.plan(source.read_shown(output)), document=source.name))

    for source in inputs:
        if len(inputs) == 1:
            add(source)
        elif (error := attempt(partial(add, source))) is not None:
            failures.append((source, error))
    seconds = [summarizer.expected_seconds(plan) for plan in plans]
    preset, machine = summarizer.preset, this_machine()
    on_cpu = machine.device == "cpu"
    need = estimate(preset, on_cpu=on_cpu)
    if need is not None and fits(preset, machine.free, on_cpu=on_cpu) is False:
        free = format_bytes(machine.free)
        output.warn(f"{preset.name} needs about {format_bytes(need.total)} of memory; {free} are free")
    memory = None if need is None else need.total
    if choice.reason not in ("named", "quotes"):
        writes = summarizer.settings.mode == "abstractive"
        output.status(announcement(choice, writes=writes))
    if as_json:
        known = zip(plans, seconds, strict=True)
        records = [
            asdict(plan) | {"seconds": expected, "memory": memory, "preset": preset.name} for plan, expected in known
        ]
        output.write_json(records[0] if len(inputs) == 1 else records)
    elif plans:
        output.show(plan_table(plans, seconds, memory, width=output.width))
    report(output, failures, len(inputs))
