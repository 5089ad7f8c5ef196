"""`specextend bench --suite gpu`. Imports nothing of the other benchmarks: it runs where little is installed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, cast

from specextend_cli.cli import signals

if TYPE_CHECKING:
    from specextend_cli.bench.tables import Format
    from specextend_cli.ui.streams import Output


def run(
    terminal: Output,
    device: str,
    kind: str | None,
    output: Path | None,
    report: Path | None,
    *,
    timeout: float | None,
    quiet: bool,
    one_line: bool,
    force: bool,
) -> None:
    """Measure, show, and judge. WrongError after the result was shown."""
    from specextend_cli.bench import tables
    from specextend_cli.bench.report import write_experiments
    from specextend_cli.bench.suite.device_info import pick

    where = pick(device)
    from specextend_cli.bench.suite import gpu
    from specextend_cli.ui import experiments

    if where.type != "cuda":
        terminal.warn(gpu.REHEARSAL)
    with signals.deadline(timeout):
        suite = gpu.finish(gpu.run(where), (lambda line: None) if quiet else terminal.note)
    if kind is None:
        terminal.show(experiments.report([suite.experiment], suite.facts, suite.skipped, terminal.width))
    else:
        text = gpu.to_json(suite) if kind == "json" else tables.render(suite.experiment, cast("Format", kind))
        write(terminal, text, output, one_line=one_line, force=force)
    if report is not None:
        page = write_experiments([suite.experiment], report, suite.facts | suite.left_out)
        if not quiet:
            terminal.note(f"report: {page}")
    gpu.judge(suite)


def write(terminal: Output, text: str, output: Path | None, *, one_line: bool, force: bool) -> None:
    """A result's text, on stdout or in a file; `one_line` folds JSON."""
    from specextend_cli.bench.tables import dumps
    from specextend_cli.ui.destination import atomic

    if one_line:
        text = dumps(json.loads(text)) + "\n"
    if output is None:
        terminal.write(text)
        return
    with atomic(output, force=force) as file:
        file(text)
