"""`specextend bench --suite gpu` and `--suite quality`.

The former imports nothing of the other benchmarks: it runs where little is installed.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from specextend_cli.cli import signals
from specextend_cli.errors import UsageError

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
    from specextend_cli.bench.report import write_report
    from specextend_cli.bench.suite.device_info import pick

    where = pick(device)
    from specextend_cli.bench.suite import gpu
    from specextend_cli.ui.bench import experiments_report

    if where.type != "cuda":
        terminal.warn(gpu.REHEARSAL)
    with signals.deadline(timeout):
        suite = gpu.run(where, (lambda line: None) if quiet else terminal.note)
    if kind is None:
        terminal.show(experiments_report([suite.experiment], suite.facts, suite.skipped, terminal.width))
    else:
        write(terminal, suite.render(cast("Format", kind)), output, one_line=one_line, force=force)
    if report is not None:
        page = write_report(report, experiments=[suite.experiment], facts=suite.facts | suite.left_out)
        if not quiet:
            terminal.note(f"report: {page}")
    suite.judge()


def run_quality(
    terminal: Output,
    dataset: str | None,
    kind: str,
    output: Path | None,
    wanted: dict[str, Any],
    *,
    timeout: float | None,
    quiet: bool,
    one_line: bool,
    fresh: bool,
) -> None:
    """Summarize, score, show; the directory `output` (default: by the data set, in the cache) keeps everything.

    `wanted`: fields of the suite's `Settings`.
    """
    from specextend_cli.bench.suite import quality
    from specextend_cli.bench.texts import sources
    from specextend_cli.models.store import cache_root
    from specextend_cli.ui.destination import atomic

    if dataset is None:
        raise UsageError("--suite quality needs documents with reference summaries", fix="add --dataset FILE.jsonl")
    settings = quality.Settings(**wanted)
    items, words = quality.choose(sources((), dataset), settings)
    directory = output or cache_root() / "bench" / f"quality-{Path(dataset).name.partition('.')[0]}"
    rows = quality.Rows(directory / "summaries.jsonl", fresh=fresh)
    try:
        with signals.deadline(timeout):
            result = quality.run(items, words, settings, rows, (lambda line: None) if quiet else terminal.note)
    except (KeyboardInterrupt, signals.DeadlineError):
        terminal.note(f"{len(rows.known)} summaries saved in {directory}; run again to continue")
        raise
    for suffix in ("md", "json"):
        with atomic(directory / f"quality.{suffix}", force=True) as file:
            file(result.render(cast("Any", suffix)))
    write(terminal, result.render(cast("Format", kind)), None, one_line=one_line, force=False)


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
