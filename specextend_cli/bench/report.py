"""A benchmark as tables and plots; as text for programs and for people, and as an HTML page."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path

from specextend_cli.bench.formats import (
    Cell,
    Format,
    HeatMap,
    Interval,
    LinePlot,
    Plot,
    Point,
    Table,
    dumps,
    escape,
    format_length,
    one_line,
    to_csv,
    to_markdown,
)
from specextend_cli.bench.results import PLAIN, Benchmark, Record
from specextend_cli.bench.statistics import PARTS, Row, rows
from specextend_cli.errors import UsageError, cause
from specextend_cli.humanize import format_many

SCHEMA = "specextend-bench/2"  # new keys may be added under it; a key that changes its meaning needs the next number
LONGEST = 12  # accepted lengths from here on share a column


TITLES = {
    "length": "prompt (tokens)",
    "method": "method",
    "prefill_seconds": "prefill (s)",
    "tokens_per_second": "tokens/s",
    "decode_speedup": "decoding, times plain",
    "total_speedup": "end to end, times plain",
    "accepted": "accepted length",
    "nodes": "nodes",
    "hit": "hit (%)",
    "equal": "equal to plain",
    "runs": "runs",
    "difference": "first difference (token)",
    "gap": "largest gap there",
    "peak_bytes": "peak memory (MB)",
    **{part: f"{part} (%)" for part in PARTS},
    "repeated": "repeated 4-grams (%)",
}
"""Headings of a row's fields."""


def columns(row: Row, *names: str) -> dict[str, Cell]:
    """Length and method, and the fields of these names, under their headings."""
    cells: dict[str, Cell] = {TITLES[name]: getattr(row, name) for name in ("length", "method", *names)}
    if row.scaled:
        cells[TITLES["length"]] = f"{row.length:,} (scaled)"
    if "peak_bytes" in names:
        cells[TITLES["peak_bytes"]] = round(row.peak_bytes / 1e6) or None
    return cells


def tables(found: Sequence[Row]) -> tuple[Table, ...]:
    """Speed and output, and where the time goes. The most important columns come first."""
    speed = (
        "Prefill and tokens/s are medians over runs. Times plain: the median of the documents' own ratios, in brackets "
        "its 95% interval (percentile bootstrap over documents). Accepted length: tokens a verification step emits, "
        "bonus token included. Equal: runs with the tokens of plain decoding; in float32 all must be. In half "
        "precision rounding may swap two close logits: the gap says how close. Scaled: RoPE was stretched beyond the "
        "trained window."
    )
    time = "Percent of decoding time. Hit: share of the target's attention on what the draft could see."
    names = ("tokens_per_second", "decode_speedup", "total_speedup", "accepted", "equal", "runs", "prefill_seconds")
    return (
        _table("Speed", found, (*names, "peak_bytes", "difference", "gap", "repeated"), speed),
        _table("Drafting", found, ("accepted", "nodes", "hit", *PARTS), time),
    )


def _table(title: str, found: Sequence[Row], names: Sequence[str], note: str) -> Table:
    """Without columns that have no value in any row."""
    known = [name for name in names if any(getattr(row, name) is not None for row in found)]
    return Table.of(title, (columns(row, *known) for row in found), note)


def charts(found: Sequence[Row], records: Sequence[Record]) -> tuple[Plot, ...]:
    """Every plot that has data."""
    return (
        *decoding_speedup(found),
        *_by_length(found, "End to end: speedup over plain", "times plain", lambda row: row.total_speedup),
        *accepted_lengths(found),
        *(plot for length in sorted({row.length for row in found}) for plot in distribution(records, length)),
    )


def decoding_speedup(found: Sequence[Row]) -> Iterable[LinePlot]:
    """Decoding speed over plain decoding, by prompt length."""
    return _by_length(found, "Decoding: speedup over plain", "times plain", lambda row: row.decode_speedup)


def accepted_lengths(found: Sequence[Row]) -> Iterable[LinePlot]:
    """Tokens a verification step, by prompt length."""
    title, y_label = "Accepted length, bonus token included", "tokens per verification step"
    return _by_length(
        found, title, y_label, lambda row: row.accepted if row.accepted and row.accepted.value > 1 else None
    )


def distribution(records: Sequence[Record], length: int) -> Iterable[HeatMap]:
    """How often a verification step emits how many tokens, at one prompt length, by the methods that draft."""
    counts: dict[str, Counter[int]] = {}
    for record in records:
        if record.length == length:
            counts.setdefault(record.method, Counter()).update(record.accepted)
    counts = {method: count for method, count in counts.items() if max(count, default=0) > 1}
    longest = max((max(count) for count in counts.values()), default=0)
    names = {size: f"{size}{'+' if size == LONGEST < longest else ''}" for size in range(1, min(longest, LONGEST) + 1)}
    values = {method: dict.fromkeys(names.values(), 0.0) for method in counts}
    for method, count in counts.items():
        for size, steps in count.items():
            values[method][names[min(size, LONGEST)]] += steps / count.total()
    if values:
        title = f"Tokens per verification step, prompts of {format_length(length)} tokens"
        yield HeatMap(title, "tokens a step emits, bonus included (share of all steps)", "method", values)


def _by_length(
    found: Sequence[Row], title: str, y_label: str, pick: Callable[[Row], Interval | None]
) -> Iterable[LinePlot]:
    """A line a method, and plain decoding's 1."""
    lines: dict[str, list[Point]] = {row.method: [] for row in found if row.method != PLAIN}
    for row in found:
        if row.method != PLAIN and (interval := pick(row)) is not None:
            lines[row.method].append(Point(row.length, interval.value, interval.low, interval.high))
    if any(lines.values()):
        note = "Error bars: 95% interval over documents."
        yield LinePlot(title, "prompt (tokens)", y_label, lines, note, over_plain=True)


def facts(benchmark: Benchmark) -> dict[str, str]:
    """Preset, machine, software and settings, and what was left out, by name, in display order."""
    machine = benchmark.machine
    commit = f" ({machine.commit})" if machine.commit else ""
    lines = {
        "preset": benchmark.preset,
        "device": machine.device,
        "processor": f"{machine.processor}, {format_many(machine.threads, 'thread')}",
        "software": (
            f"specextend {machine.version}{commit}, Python {machine.python}, torch {machine.torch}, "
            f"transformers {machine.transformers}"
        ),
        "seed": str(benchmark.seed),
        "settings": _settings(benchmark.settings),
        **{f"left out: {method}": why for method, why in benchmark.skipped.items()},
    }
    return {one_line(name): one_line(value) for name, value in lines.items() if value}


def _setting(value: object) -> str:
    if isinstance(value, dict):
        return f"({_settings(value)})"
    if isinstance(value, (list, tuple)):
        return "/".join(map(_setting, value))
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else str(value)


def _settings(values: Mapping[str, object]) -> str:
    """The settings that were set, not None or empty."""
    return ", ".join(f"{name} {_setting(value)}" for name, value in values.items() if value not in (None, [], (), ""))


def render(benchmark: Benchmark, format: Format, indent: int | None = 2) -> str:
    """The benchmark as text that ends with a newline.

    "csv" has the fields of `Row`, or experiments' tables with an empty line between them. "json" has everything;
    without an `indent` it is one line.
    """
    found = rows(benchmark.records, benchmark.seed)
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
    """`index.html`, every plot as SVG and PNG, and everything as `benchmark.json`; returns the page's path.

    The directory is made if it is absent. UsageError if it cannot be written, or without matplotlib.
    """
    from specextend_cli.bench.plots import draw

    written, drawn = {"benchmark.json": render(benchmark, "json").encode()}, dict[int, str]()
    plots = [plot for experiment in benchmark.experiments for plot in experiment.plots]
    for number, plot in enumerate(plots, 1):
        picture = draw(plot)
        drawn[id(plot)] = picture.svg
        name = f"{number}-{re.sub(r'[^a-z0-9]+', '-', plot.title.lower()).strip('-')[:60]}"
        written |= {f"{name}.svg": picture.svg.encode(), f"{name}.png": picture.png}
    written["index.html"] = _page(benchmark, drawn).encode()
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for name, bytes_ in written.items():
            (directory / name).write_bytes(bytes_)
    except OSError as error:
        raise UsageError(
            f"the report cannot be written to {one_line(str(directory))}",
            why=cause(error),
            fix="--report DIR, a directory you may write to",
        ) from None
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
