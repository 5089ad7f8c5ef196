"""What `specextend bench` does with what was measured: shows progress and result, writes it, decides its exit code.

Imports are in the functions: where only the suite for gpu runs, little may be installed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from specextend_cli.cli import signals
from specextend_cli.errors import InputError, SpecextendError, UsageError, cause

if TYPE_CHECKING:
    from specextend_cli.bench.events import Event, Finished
    from specextend_cli.bench.records import Benchmark
    from specextend_cli.bench.tables import Format
    from specextend_cli.ui.output import Output


@dataclass(frozen=True)
class BenchOutput:
    """How a result is shown: as text of that `kind` (None: a table) in `path` or on stdout; `one_line` folds JSON."""

    terminal: Output
    kind: str | None
    path: Path | None
    report: Path | None
    timeout: float | None
    one_line: bool
    force: bool

    def write(self, text: str, path: Path | None) -> None:
        """A result's text, on stdout or in a file."""
        from specextend_cli.bench.tables import dumps
        from specextend_cli.ui.destination import atomic

        if self.one_line:
            text = dumps(json.loads(text)) + "\n"
        if path is None:
            self.terminal.write(text)
            return
        with atomic(path, force=self.force) as file:
            file(text)


def watch(out: BenchOutput, events: Iterable[Event]) -> Finished:
    """Run to the end and return the result; if interrupted, say what is saved."""
    from specextend_cli.bench.events import Finished
    from specextend_cli.ui.bench_progress import BenchView

    view = BenchView(out.terminal)
    try:
        with signals.deadline(out.timeout), view:
            for event in events:
                view.add(event)
                if isinstance(event, Finished):
                    return event
    except (KeyboardInterrupt, signals.DeadlineError):
        out.terminal.note(view.stopped())
        raise
    raise AssertionError("the benchmark ended without a result")


def show(out: BenchOutput, result: Finished, old: Benchmark | None) -> None:
    """Show and write the result and its page.

    Then SpecextendError for other tokens than plain decoding's, or if it is worse than the `old` result.
    """
    from specextend_cli.bench import report
    from specextend_cli.bench.regression import regressions
    from specextend_cli.ui import bench

    terminal, benchmark, facts = out.terminal, result.benchmark, report.provenance(result.benchmark)
    if out.kind is not None:
        out.write(_text(result, cast("Format", out.kind)), out.path)
    elif result.experiments:
        terminal.show(bench.experiments_report(result.experiments, facts, benchmark.skipped, terminal.width))
    else:
        terminal.show(bench.report(benchmark, terminal.width))
    if out.report is not None:
        if result.experiments:
            page = report.write_report(out.report, experiments=result.experiments, facts=facts)
        else:
            page = report.write_report(out.report, benchmark)
        terminal.status(f"report: {page}")
    result.forget()
    if result.wrong:
        exact = benchmark.settings.get("dtype") == "float32"
        why = "in float32 none may differ" if exact else "the two best logits were too far apart for rounding"
        fix = "please report this with the result: specextend bench … --json"
        raise SpecextendError(f"{', '.join(result.wrong)} wrote other tokens than plain decoding", why=why, fix=fix)
    if old is not None and not result.experiments and (worse := regressions(old, benchmark)):
        raise SpecextendError("something is worse than it was", why="; ".join(worse))


def _text(result: Finished, form: Format) -> str:
    from specextend_cli.bench import report, tables

    if not result.experiments:
        return report.render(result.benchmark, form)
    if form == "json":
        return tables.dumps([tables.to_plain(experiment) for experiment in result.experiments], indent=2) + "\n"
    return "\n".join(tables.render(experiment, form) for experiment in result.experiments)


def read(path: Path) -> Benchmark:
    """An earlier result, for `--compare`."""
    from specextend_cli.bench.storage import from_json

    try:
        return from_json(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read {path}", why=cause(error)) from error


def run_suite(out: BenchOutput, device: str) -> None:
    """Measure, show, and judge. WrongError after the result was shown."""
    from specextend_cli.bench.report import write_report
    from specextend_cli.bench.suite.device_info import pick

    where = pick(device)
    from specextend_cli.bench.suite import gpu
    from specextend_cli.ui.bench import experiments_report

    terminal = out.terminal
    if where.type != "cuda":
        terminal.warn(gpu.REHEARSAL)
    with signals.deadline(out.timeout):
        suite = gpu.run(where, terminal.status)
    if out.kind is None:
        terminal.show(experiments_report([suite.experiment], suite.facts, suite.skipped, terminal.width))
    else:
        out.write(suite.render(cast("Format", out.kind)), out.path)
    if out.report is not None:
        page = write_report(out.report, experiments=[suite.experiment], facts=suite.facts | suite.left_out)
        terminal.status(f"report: {page}")
    suite.judge()


def run_quality(out: BenchOutput, dataset: str | None, wanted: dict[str, Any], *, fresh: bool) -> None:
    """Summarize, score, show on stdout, keep everything in `out.path`; `wanted`: fields of the suite's `Settings`."""
    from specextend_cli.bench.suite import quality
    from specextend_cli.bench.texts import sources
    from specextend_cli.models.store import cache_root
    from specextend_cli.ui.destination import atomic

    if dataset is None:
        raise UsageError("--suite quality needs documents with reference summaries", fix="add --dataset FILE.jsonl")
    settings = quality.Settings(**wanted)
    items, words = quality.choose(sources((), dataset), settings)
    directory = out.path or cache_root() / "bench" / f"quality-{Path(dataset).name.partition('.')[0]}"
    rows = quality.Rows(directory / "summaries.jsonl", fresh=fresh)
    try:
        with signals.deadline(out.timeout):
            result = quality.run(items, words, settings, rows, out.terminal.status)
    except (KeyboardInterrupt, signals.DeadlineError):
        out.terminal.note(f"{len(rows.known)} summaries saved in {directory}; run again to continue")
        raise
    for suffix in ("md", "json"):
        with atomic(directory / f"quality.{suffix}", force=True) as file:
            file(result.render(cast("Any", suffix)))
    out.write(result.render(cast("Format", out.kind or "md")), None)
