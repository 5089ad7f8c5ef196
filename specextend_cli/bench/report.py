"""A benchmark as tables, as text for programs, and as an HTML page with plots."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from specextend_cli.bench.statistics import Interval, quantile
from specextend_cli.bench.tables import (
    Cell,
    Experiment,
    Format,
    Plot,
    Table,
    dumps,
    escape,
    one_line,
    to_csv,
    to_markdown,
    to_plain,
)
from specextend_cli.errors import UsageError
from specextend_cli.humanize import format_percent

if TYPE_CHECKING:
    from specextend_cli.bench.plots import Picture
    from specextend_cli.bench.quality import Quality
    from specextend_cli.bench.records import Benchmark
    from specextend_cli.bench.rows import Row


def tables(rows: Sequence[Row]) -> tuple[Table, ...]:
    """Speed, drafting and output, for people. Tables without data are left out."""
    drafted = [row for row in rows if row.accepted is not None or row.shares is not None]
    return (_speed(rows), *([_drafting(drafted)] if drafted else []), _output(rows))


def _speed(rows: Sequence[Row]) -> Table:
    return Table(
        "Speed",
        (
            "prompt (tokens)",
            "method",
            "prefill (s)",
            "decoding (s)",
            "in all (s)",
            "tokens/s",
            "decoding, times plain",
            "end to end, times plain",
            "peak memory (MB)",
        ),
        tuple(
            (
                _prompt(row),
                row.method,
                row.prefill_seconds,
                row.decode_seconds,
                row.total_seconds,
                row.tokens_per_second,
                format_interval(row.decode_speedup, "×"),
                format_interval(row.total_speedup, "×"),
                round(row.peak_bytes / 1e6) or None,
            )
            for row in rows
        ),
        "Seconds and tokens/s are medians over runs; tokens/s leaves prefill out. Times plain: the median of the "
        "documents' own ratios, in brackets its 95% interval (percentile bootstrap over documents).",
    )


def _drafting(rows: Sequence[Row]) -> Table:
    shares = ("draft", "verify", "retrieve", "host")
    return Table(
        "Drafting",
        ("prompt (tokens)", "method", "accepted length", "10%-90% of steps", "tree nodes", *shares, "hit"),
        tuple(
            (
                _prompt(row),
                row.method,
                format_interval(row.accepted),
                format_spread(row.accepted_counts),
                row.nodes,
                *(None if row.shares is None else format_percent(getattr(row.shares, part)) for part in shares),
                None if row.hit is None else format_percent(row.hit),
            )
            for row in rows
        ),
        "Accepted length: tokens a verification step emits, bonus token included (plain decoding has 1), the mean over "
        "documents with its 95% interval. Draft, verify, retrieve and host: shares of decoding time. Hit: share of "
        "the target's attention that the draft could see.",
    )


def _output(rows: Sequence[Row]) -> Table:
    scored = any(row.quality for row in rows)
    return Table(
        "Output",
        (
            "prompt (tokens)",
            "method",
            "documents",
            "runs equal to plain",
            "first difference (token)",
            "logit gap there",
            "largest gap",
            "repeated 4-grams",
            *(("ROUGE-1", "ROUGE-2", "ROUGE-L", "chrF") if scored else ()),
        ),
        tuple(
            (
                _prompt(row),
                row.method,
                row.documents,
                f"{row.equal} of {row.compared}" if row.compared else None,
                row.first_divergence.index + 1 if row.first_divergence else None,
                row.first_divergence.gap if row.first_divergence else None,
                row.largest_gap,
                format_percent(row.repeated),
                *(_scores(row.quality) if scored else ()),
            )
            for row in rows
        ),
        "Gap: the difference of plain decoding's two largest logits at the first token that differs. Rounding in half "
        "precision can swap close ones; in float32 every run must be equal.",
    )


def _prompt(row: Row) -> Cell:
    return f"{row.length:,} (scaled)" if row.scaled else row.length


def _scores(score: Quality | None) -> tuple[Cell, ...]:
    return (None,) * 4 if score is None else (score.rouge1, score.rouge2, score.rouge_l, score.chrf)


def format_interval(interval: Interval | None, unit: str = "") -> str | None:
    """ "1.92× (1.80-2.05)"; without brackets for a single document, or if nothing varies."""
    if interval is None:
        return None
    value = f"{interval.value:.2f}{unit}"
    return value if interval.low == interval.high else f"{value} ({interval.low:.2f}-{interval.high:.2f})"


def format_spread(counts: Counter[int]) -> str | None:
    """ "1-5": tokens that the middle 80% of steps emitted."""
    if not counts:
        return None
    low, high = quantile(counts, 0.1), quantile(counts, 0.9)
    return f"{low}-{high}" if low < high else str(low)


def render(benchmark: Benchmark, format: Format) -> str:
    """The benchmark as text that ends with a newline.

    "json" is what `from_json` reads; "csv" has a line a row; "jsonl" a line for the run and then one a row.
    """
    from specextend_cli.bench.caveats import caveats, provenance
    from specextend_cli.bench.rows import summarize
    from specextend_cli.bench.storage import SCHEMA, to_json

    if format == "json":
        return to_json(benchmark)
    rows = summarize(benchmark)
    match format:
        case "csv":
            flats = [row.flat() for row in rows]
            header = tuple(flats[0]) if flats else ()
            return to_csv(Table("", header, tuple(tuple(values.values()) for values in flats)))
        case "jsonl":
            head = {"type": "benchmark", "schema": SCHEMA, "preset": benchmark.preset, "seed": benchmark.seed}
            run = {"settings": benchmark.settings, "machine": asdict(benchmark.machine), "skipped": benchmark.skipped}
            return "".join(
                f"{dumps(line)}\n" for line in ({**head, **run}, *({"type": "row", **row.flat()} for row in rows))
            )
        case "md":
            facts = (f"{name}: {value}" for name, value in provenance(benchmark).items())
            remarks = [f"- {escape(line)}\n" for line in (*caveats(benchmark, rows), *facts)]
            return "\n".join(map(to_markdown, tables(rows))) + "\n" + "".join(remarks)


def write_report(benchmark: Benchmark, directory: Path, experiments: Sequence[Experiment] = ()) -> Path:
    """`index.html`, `benchmark.json` for `--compare`, and every plot as SVG and PNG; returns the page's path.

    The directory is made if it is absent. UsageError if it cannot be written, or without matplotlib.
    """
    from specextend_cli.bench.caveats import caveats, provenance
    from specextend_cli.bench.charts import charts
    from specextend_cli.bench.rows import summarize
    from specextend_cli.bench.storage import to_json

    rows = summarize(benchmark)
    return _write(
        directory,
        {"benchmark.json": to_json(benchmark)},
        title=benchmark.preset,
        facts=provenance(benchmark),
        experiments=experiments,
        caveats=caveats(benchmark, rows),
        plots=charts(rows),
        tables=tables(rows),
    )


def write_experiments(
    experiments: Sequence[Experiment], directory: Path, facts: Mapping[str, str] | None = None
) -> Path:
    """The same for experiments alone, with `experiments.json`; `facts`: machine and settings."""
    data = dumps([to_plain(experiment) for experiment in experiments], indent=2) + "\n"
    title = ", ".join(experiment.name for experiment in experiments)
    return _write(directory, {"experiments.json": data}, title=title, facts=facts or {}, experiments=experiments)


def _write(
    directory: Path,
    files: Mapping[str, str],
    *,
    title: str,
    facts: Mapping[str, str],
    experiments: Sequence[Experiment],
    caveats: Sequence[str] = (),
    plots: Sequence[Plot] = (),
    tables: Sequence[Table] = (),
) -> Path:
    drawn: dict[int, Picture] = {}
    written: dict[str, bytes] = {name: content.encode() for name, content in files.items()}
    for number, plot in enumerate([*plots, *(plot for one in experiments for plot in one.plots)], 1):
        from specextend_cli.bench.plots import draw

        drawn[id(plot)] = picture = draw(plot)
        name = f"{number}-{re.sub(r'[^a-z0-9]+', '-', plot.title.lower()).strip('-')[:60]}"
        written |= {f"{name}.svg": picture.svg.encode(), f"{name}.png": picture.png}
    page = _page(
        {plot: picture.svg for plot, picture in drawn.items()},
        title=title,
        facts=facts,
        experiments=experiments,
        caveats=caveats,
        plots=plots,
        tables=tables,
    )
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for name, content in {**written, "index.html": page.encode()}.items():
            (directory / name).write_bytes(content)
    except OSError as error:
        raise UsageError(
            f"the report cannot be written to {one_line(str(directory))}",
            why=error.strerror or str(error),
            fix="--report DIR, a directory you may write to",
        ) from None
    return directory / "index.html"


def _shown(value: object) -> object:
    """Untrusted text on one line; what a filter has made stays as it is."""
    return one_line(value) if type(value) is str else value


def _page(drawn: Mapping[int, str], **values: object) -> str:
    """The template filled in. Untrusted text is escaped by jinja2, or, in tables, by Markdown's own rules."""
    from jinja2 import Environment
    from markdown_it import MarkdownIt
    from markupsafe import Markup

    markdown = MarkdownIt("commonmark", {"html": False}).enable("table")
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True, finalize=_shown)
    environment.filters["markdown"] = lambda table: Markup(markdown.render(to_markdown(table)))
    environment.filters["picture"] = lambda plot: Markup(drawn[id(plot)])
    template = Path(__file__).with_name("report.html.jinja").read_text(encoding="utf-8")
    return environment.from_string(template).render(values)
