"""`specextend bench --suite gpu`: runs where little is installed, so it imports nothing of the other benchmarks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, cast

from specextend_cli.cli import signals

if TYPE_CHECKING:
    from specextend_cli.bench.suite.gpu import Suite
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
    """Measure, show, and judge: WrongError after the result, which stays useful."""
    from specextend_cli.bench.suite.device_info import pick

    where = pick(device)
    from specextend_cli.bench.suite import gpu

    if where.type != "cuda":
        terminal.warn(gpu.REHEARSAL)
    with signals.deadline(timeout):
        suite = gpu.finish(gpu.run(where), (lambda line: None) if quiet else terminal.note)
    _show(terminal, suite, cast("Format | None", kind), output, one_line=one_line, force=force)
    if report is not None:
        from specextend_cli.bench import report as page_writer

        page = page_writer.write_experiments([suite.experiment], report, suite.facts | suite.left_out)
        if not quiet:
            terminal.note(f"report: {page}")
    gpu.judge(suite)


def _show(
    terminal: Output, suite: Suite, kind: Format | None, output: Path | None, *, one_line: bool, force: bool
) -> None:
    from specextend_cli.bench import tables
    from specextend_cli.bench.suite import gpu
    from specextend_cli.ui import experiments
    from specextend_cli.ui.destination import atomic

    if kind is None:
        shown = experiments.report([suite.experiment], suite.facts, suite.skipped, terminal.width)
        terminal.show(shown)
        return
    text = gpu.to_json(suite) if kind == "json" else tables.render(suite.experiment, kind)
    if one_line:
        text = tables.dumps(json.loads(text)) + "\n"
    if output is None:
        terminal.write(text)
        return
    with atomic(output, force=force) as write:
        write(text)
