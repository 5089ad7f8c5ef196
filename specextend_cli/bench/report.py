"""A benchmark as tables and plots; as text for programs and for people, and as an HTML page."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path

from specextend_cli.bench.formats import (
    Cell,
    Format,
    Interval,
    Plot,
    Point,
    Table,
    dumps,
    escape,
    one_line,
    to_csv,
    to_markdown,
)
from specextend_cli.bench.results import PLAIN, Benchmark
from specextend_cli.bench.statistics import Measurements, Row

SCHEMA = "specextend-bench/2"  # new keys may be added under it; a key that changes its meaning needs the next number


TITLES = {
    "length": "prompt (tokens)",
    "method": "method",
    "tokens_per_second": "tokens/s",
    "decode_speedup": "decoding, times plain",
    "equal": "equal to plain",
    "runs": "runs",
    "accepted": "accepted length",
    "total_speedup": "end to end, times plain",
    "prefill_seconds": "prefill (s)",
    "hit": "hit (%)",
    "nodes": "nodes",
    "difference": "first difference (token)",
    "gap": "largest gap there",
}
"""Headings of a row's fields."""
_PLOTS = {
    "decode_speedup": ("Decoding: speedup over plain", "times plain"),
    "total_speedup": ("End to end: speedup over plain", "times plain"),
    "accepted": ("Accepted length, bonus token included", "tokens per verification step"),
}
"""Titles and labels of the plots of a row's fields."""


def columns(row: Row, *names: str) -> dict[str, Cell]:
    """Length and method, and the fields of these names, under their headings."""
    cells: dict[str, Cell] = {TITLES[name]: getattr(row, name) for name in ("length", "method", *names)}
    if row.scaled:
        cells[TITLES["length"]] = f"{row.length:,} (scaled)"
    return cells


def table(found: Sequence[Row]) -> Table:
    """The table of a benchmark. The most important columns come first; those without a value are left out."""
    note = (
        "Tokens/s and prefill are medians over runs. Times plain: the median of the documents' own ratios, in brackets "
        "its 95% interval (percentile bootstrap over documents). Accepted length: tokens a verification step emits, "
        "bonus token included. Equal: runs with the tokens of plain decoding; in float32 all must be. In half "
        "precision rounding may swap two close logits: the gap says how close. Hit: share of the target's attention on "
        "what the draft could see. Scaled: RoPE was stretched beyond the trained window."
    )
    known = [name for name in list(TITLES)[2:] if any(getattr(row, name) is not None for row in found)]
    return Table.of("Methods", (columns(row, *known) for row in found), note)


def charts(found: Sequence[Row], *names: str) -> tuple[Plot, ...]:
    """Plots by prompt length of the fields of these names, of all by default: a line a method, and plain decoding's 1.

    Fields without data have none.
    """
    plots: list[Plot] = []
    for name in names or _PLOTS:
        lines: dict[str, list[Point]] = {row.method: [] for row in found if row.method != PLAIN}
        for row in found:
            interval: Interval | None = getattr(row, name)
            if row.method != PLAIN and interval is not None:
                lines[row.method].append(Point(row.length, interval.value, interval.low, interval.high))
        if any(lines.values()):
            title, y_label = _PLOTS[name]
            note = "Error bars: 95% interval over documents."
            plots.append(Plot(title, "prompt (tokens)", y_label, lines, note, over_plain=True))
    return tuple(plots)


def facts(benchmark: Benchmark) -> dict[str, str]:
    """Preset, machine, software and settings, and what was left out, by name, in display order."""
    lines = {
        "preset": benchmark.preset,
        **benchmark.machine,
        "seed": str(benchmark.seed),
        "settings": ", ".join(_setting(name, value) for name, value in benchmark.settings.items() if value),
        **{f"left out: {method}": why for method, why in benchmark.skipped.items()},
    }
    return {one_line(name): one_line(value) for name, value in lines.items() if value}


def _setting(name: str, value: object) -> str:
    """ "lengths 512/1024", or "tree (nodes 12, depth 5)"."""
    if isinstance(value, dict):
        return f"{name} ({', '.join(map(_setting, value, value.values()))})"
    return f"{name} {'/'.join(map(str, value)) if isinstance(value, (list, tuple)) else value}"


def render(benchmark: Benchmark, format: Format, indent: int | None = 2) -> str:
    """The benchmark as text that ends with a newline.

    "csv" has the fields of `Row`, or experiments' tables with an empty line between them. "json" has everything;
    without an `indent` it is one line.
    """
    found = Measurements(benchmark.records, benchmark.seed).rows
    match format:
        case "json":
            summary = [asdict(row) for row in found]
            return dumps({"schema": SCHEMA, "summary": summary, **asdict(benchmark)}, indent) + "\n"
        case "csv" if found:
            cells = ({field.name: getattr(row, field.name) for field in fields(row)} for row in found)
            return to_csv(Table.of("", cells))
        case "csv":
            return "\n".join(to_csv(table) for experiment in benchmark.experiments for table in experiment.tables)
        case "md":
            parts = []
            for experiment in benchmark.experiments:
                parts.append(f"## {escape(experiment.name)}\n\n{escape(experiment.question)}\n")
                parts += map(to_markdown, experiment.tables)
            listed = (f"- {escape(name)}: {escape(value)}\n" for name, value in facts(benchmark).items())
            return "\n".join([*parts, "".join(listed)])


def write_report(directory: Path, benchmark: Benchmark) -> Path:
    """`index.html`, every plot as SVG, and everything as `benchmark.json`; returns the page's path.

    The directory is made if it is absent. OSError if it cannot be written. It needs matplotlib: see `plots.require`.
    """
    from specextend_cli.bench.plots import draw

    written, drawn = {"benchmark.json": render(benchmark, "json").encode()}, dict[int, str]()
    plots = [plot for experiment in benchmark.experiments for plot in experiment.plots]
    for number, plot in enumerate(plots, 1):
        drawn[id(plot)] = draw(plot)
        name = re.sub(r"[^a-z0-9]+", "-", plot.title.lower()).strip("-")[:60]
        written[f"{number}-{name}.svg"] = drawn[id(plot)].encode()
    written["index.html"] = _page(benchmark, drawn).encode()
    directory.mkdir(parents=True, exist_ok=True)
    for name, content in written.items():
        (directory / name).write_bytes(content)
    return directory / "index.html"


def _page(benchmark: Benchmark, drawn: Mapping[int, str]) -> str:
    """The template filled in. Untrusted text is escaped by jinja2, or, in tables, by Markdown's own rules."""
    from jinja2 import Environment
    from markdown_it import MarkdownIt
    from markupsafe import Markup

    def shown(value: object) -> object:
        """Untrusted text on one line; what a filter has made, which is of another type, stays as it is."""
        return one_line(value) if type(value) is str else value

    markdown = MarkdownIt("commonmark", {"html": False}).enable("table")
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True, finalize=shown)
    environment.filters["markdown"] = lambda table: Markup(markdown.render(to_markdown(table)))
    environment.filters["picture"] = lambda plot: Markup(drawn[id(plot)])
    template = Path(__file__).with_name("report.html.jinja").read_text(encoding="utf-8")
    return environment.from_string(template).render(
        title=benchmark.preset, facts=facts(benchmark), experiments=benchmark.experiments, runs=benchmark.records
    )
