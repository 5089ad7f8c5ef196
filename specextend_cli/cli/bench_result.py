"""What `specextend bench` does with a benchmark: shows it while it runs, and its result on stdout or in files."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import cast

from specextend_cli.bench import report, tables
from specextend_cli.bench.events import Event, Explored, Finished, Result
from specextend_cli.cli import signals
from specextend_cli.models.preset_file import to_toml
from specextend_cli.ui import bench, experiments
from specextend_cli.ui.benching import open_bench
from specextend_cli.ui.destination import atomic
from specextend_cli.ui.streams import Output


def watch(terminal: Output, events: Iterable[Event], *, timeout: float | None, quiet: bool) -> Result:
    """Run it to its end and return the result; where it ends early, say what is saved."""
    view = open_bench(terminal, quiet=quiet)
    try:
        with signals.deadline(timeout), view:
            for event in events:
                view.add(event)
                if isinstance(event, Finished | Explored):
                    return event
    except (KeyboardInterrupt, signals.DeadlineError):
        terminal.note(view.stopped())
        raise
    raise AssertionError("the benchmark ended without a result")


def show(
    terminal: Output, result: Result, kind: str | None, output: Path | None, *, one_line: bool, force: bool
) -> None:
    """The result, on stdout or in a file."""
    if kind is None:
        if isinstance(result, Finished):
            terminal.show(bench.report(result.benchmark, terminal.width))
        else:
            terminal.show(experiments.report(result.experiments, result.facts, result.skipped, terminal.width))
        return
    text = _text(result, cast(tables.Format, kind))
    if one_line:
        text = tables.dumps(json.loads(text)) + "\n"
    if output is None:
        terminal.write(text)
        return
    with atomic(output, force=force) as write:
        write(text)


def _text(result: Result, form: tables.Format) -> str:
    """The result for programs."""
    if isinstance(result, Finished):
        return report.render(result.benchmark, form)
    if form == "json":
        return tables.dumps([tables.to_plain(experiment) for experiment in result.experiments], indent=2) + "\n"
    return "\n".join(tables.render(experiment, form) for experiment in result.experiments)


def write_page(result: Result, directory: Path) -> Path:
    """The HTML page."""
    if isinstance(result, Finished):
        return report.write_report(result.benchmark, directory)
    return report.write_experiments(result.experiments, directory, result.facts)


def write_preset(result: Result, path: Path, *, force: bool) -> bool:
    """What tuning found, if it is better; returns whether it is."""
    preset = result.preset if isinstance(result, Explored) else None
    if preset is None:
        return False
    with atomic(path, force=force) as write:
        write(to_toml(preset, path.stem))
    return True
