"""What `specextend bench` does with a benchmark: shows its progress and result, and decides its exit code."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import cast

from specextend_cli.bench import report, tables
from specextend_cli.bench.events import Event, Finished
from specextend_cli.bench.overview import provenance
from specextend_cli.bench.records import Benchmark
from specextend_cli.bench.regression import regressions
from specextend_cli.bench.storage import from_json
from specextend_cli.cli import signals
from specextend_cli.cli.bench_suite import write
from specextend_cli.errors import Exit, InputError, SpecextendError
from specextend_cli.models.presets import to_toml
from specextend_cli.ui import bench
from specextend_cli.ui.benching import open_bench
from specextend_cli.ui.destination import atomic
from specextend_cli.ui.streams import Output


class DivergedError(SpecextendError):
    """A lossless method wrote other tokens than plain decoding."""

    exit = Exit.INTERNAL


class RegressionError(SpecextendError):
    """A result is worse than an earlier one."""

    exit = Exit.INTERNAL


def watch(terminal: Output, events: Iterable[Event], *, timeout: float | None, quiet: bool) -> Finished:
    """Run to the end and return the result; if interrupted, say what is saved."""
    view = open_bench(terminal, quiet=quiet)
    try:
        with signals.deadline(timeout), view:
            for event in events:
                view.add(event)
                if isinstance(event, Finished):
                    return event
    except (KeyboardInterrupt, signals.DeadlineError):
        terminal.note(view.stopped())
        raise
    raise AssertionError("the benchmark ended without a result")


def show(
    terminal: Output, result: Finished, kind: str | None, output: Path | None, *, one_line: bool, force: bool
) -> None:
    """The result, on stdout or in a file."""
    if kind is not None:
        write(terminal, _text(result, cast(tables.Format, kind)), output, one_line=one_line, force=force)
    elif result.experiments:
        facts, skipped = provenance(result.benchmark), result.benchmark.skipped
        terminal.show(bench.experiments_report(result.experiments, facts, skipped, terminal.width))
    else:
        terminal.show(bench.report(result.benchmark, terminal.width))


def _text(result: Finished, form: tables.Format) -> str:
    if not result.experiments:
        return report.render(result.benchmark, form)
    if form == "json":
        return tables.dumps([tables.to_plain(experiment) for experiment in result.experiments], indent=2) + "\n"
    return "\n".join(tables.render(experiment, form) for experiment in result.experiments)


def write_page(result: Finished, directory: Path) -> Path:
    """The HTML page."""
    if not result.experiments:
        return report.write_report(directory, result.benchmark)
    facts = provenance(result.benchmark)
    return report.write_report(directory, experiments=result.experiments, facts=facts)


def write_preset(result: Finished, path: Path, *, force: bool) -> bool:
    """Write the preset that tuning found; returns whether there is one."""
    if result.preset is None:
        return False
    with atomic(path, force=force) as file:
        file(to_toml(result.preset, path.stem))
    return True


def read(path: Path) -> Benchmark:
    """An earlier result, for `--compare`."""
    try:
        return from_json(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read {path}", why=str(error)) from error


def judge(result: Finished, old: Benchmark | None) -> None:
    """DivergedError for wrong tokens, RegressionError for a worse result. Call it after the result was shown."""
    if result.wrong:
        exact = result.benchmark.settings.get("dtype") == "float32"
        raise DivergedError(
            f"{', '.join(result.wrong)} wrote other tokens than plain decoding",
            why="in float32 none may differ" if exact else "the two best logits were too far apart for rounding",
            fix="please report this with the result: specextend bench … --json",
        )
    if old is None or result.experiments:
        return
    if worse := regressions(old, result.benchmark):
        raise RegressionError("something is worse than it was", why="; ".join(worse))
