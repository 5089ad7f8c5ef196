"""`specextend bench --suite`. That for gpu imports nothing of the other benchmarks: little may be installed."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from specextend_cli.cli import signals
from specextend_cli.errors import UsageError

if TYPE_CHECKING:
    from specextend_cli.bench.tables import Format
    from specextend_cli.summarize.summarizer import Options
    from specextend_cli.ui.streams import Output


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


def run(out: BenchOutput, device: str) -> None:
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


def summarizer_options(wanted: dict[str, Any]) -> Options:
    """The summarizer's, of the settings that `bench` takes beside each other."""
    from specextend_cli.runtime.options import EngineOptions
    from specextend_cli.summarize.summarizer import Options

    run = {name: wanted[name] for name in ("preset", "offline") if name in wanted}
    engine = {name: value for name, value in wanted.items() if name not in run}
    if "draft_head" in engine:
        engine["draft_head"] = Path(engine["draft_head"])
    return Options(engine=EngineOptions(**engine), **run)


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
