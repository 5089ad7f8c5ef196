"""What `specextend bench` does with a benchmark: shows its progress and result, and decides its exit code."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import cast

from specextend_cli.bench import report, tables
from specextend_cli.bench.events import Event, Finished
from specextend_cli.bench.records import Benchmark
from specextend_cli.bench.regression import regressions
from specextend_cli.bench.storage import from_json
from specextend_cli.cli import signals
from specextend_cli.cli.bench_suite import BenchOutput
from specextend_cli.errors import InputError, SpecextendError
from specextend_cli.ui import bench
from specextend_cli.ui.bars import BenchView


def watch(out: BenchOutput, events: Iterable[Event]) -> Finished:
    """Run to the end and return the result; if interrupted, say what is saved."""
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
    terminal, benchmark, facts = out.terminal, result.benchmark, report.provenance(result.benchmark)
    if out.kind is not None:
        out.write(_text(result, cast(tables.Format, out.kind)), out.path)
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


def _text(result: Finished, form: tables.Format) -> str:
    if not result.experiments:
        return report.render(result.benchmark, form)
    if form == "json":
        return tables.dumps([tables.to_plain(experiment) for experiment in result.experiments], indent=2) + "\n"
    return "\n".join(tables.render(experiment, form) for experiment in result.experiments)


def read(path: Path) -> Benchmark:
    """An earlier result, for `--compare`."""
    try:
        return from_json(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read {path}", why=str(error)) from error
