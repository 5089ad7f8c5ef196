"""A benchmark on a terminal: one table that fits its width, and what qualifies it; the tables of experiments."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from specextend_cli.bench.records import PLAIN, Benchmark, format_length
from specextend_cli.bench.report import caveats, provenance
from specextend_cli.bench.rows import Row, summarize
from specextend_cli.bench.statistics import Interval
from specextend_cli.bench.tables import MISSING, Experiment, format_cell, is_number_column, one_line
from specextend_cli.bench.tables import Table as Results
from specextend_cli.humanize import format_bytes, format_percent, format_seconds, is_slower
from specextend_cli.ui import tables
from specextend_cli.ui.output import AMBER, GOOD, QUIET, sanitize

WIDE, NARROW = 120, 64  # columns of a terminal from which more is shown
_INTERVAL = re.compile(r" \([\d.]+-[\d.]+\)$")


def report(benchmark: Benchmark, width: int = WIDE) -> RenderableType:
    """The table, with the notes below it."""
    rows = summarize(benchmark)
    legend = "Times plain decoding, with 95% intervals over documents; accepted: tokens a step, bonus included."
    notes = [Text(sanitize(sentence), AMBER) for sentence in caveats(benchmark, rows)]
    facts = [Text(f"{name}: {sanitize(value)}", QUIET) for name, value in provenance(benchmark).items()]
    return Group(table(rows, width), Text(), Text("\n").join([Text(legend, QUIET), *notes, *facts]))


def table(rows: Sequence[Row], width: int = WIDE) -> Table:
    """A row a method, grouped by length; fewer columns where `width` is small. Colour only repeats figures."""
    columns = [column for column in _COLUMNS if width >= column[1]]
    names = [name for name, _, _ in columns]
    made = tables.table("method", *names, numbers=names)
    for length, group in groupby(rows, key=lambda row: row.length):
        of_one = list(group)
        scaled = ", scaled" if any(row.scaled for row in of_one) else ""
        made.add_row(Text(f"{format_length(length)} tokens{scaled}", "bold"), *[""] * len(columns))
        for row in of_one:
            made.add_row(tables.cell(one_line(row.method)), *(show(row) for _, _, show in columns))
        made.add_section()
    return made


def _speedup(interval: Interval | None, row: Row, *, ranges: bool) -> Text:
    if interval is None or row.method == PLAIN:
        return Text("1.00×" if interval else MISSING)
    style = AMBER if is_slower(interval.value) else GOOD if interval.value > 1.03 else ""
    shown = Text(f"{interval.value:.2f}×", style)
    if ranges and interval.low is not None:
        shown.append(f" {interval.low:.2f}-{interval.high:.2f}", QUIET)
    return shown


def _equal(row: Row) -> Text:
    if not row.compared:
        return Text(MISSING)
    return Text(f"{row.equal} of {row.compared}", "" if row.equal == row.compared else AMBER)


def _or_missing(value: float | None, show: Callable[[float], str]) -> Text:
    return Text(MISSING if value is None else show(value))


_COLUMNS: tuple[tuple[str, int, Callable[[Row], Text]], ...] = (
    ("prefill", WIDE, lambda row: Text(format_seconds(row.prefill_seconds))),
    ("tokens/s", 0, lambda row: _or_missing(row.tokens_per_second, "{:.1f}".format)),
    ("decoding", 0, lambda row: _speedup(row.decode_speedup, row, ranges=True)),
    ("end to end", NARROW, lambda row: _speedup(row.total_speedup, row, ranges=True)),
    ("accepted", NARROW, lambda row: Text(MISSING if row.accepted is None else f"{row.accepted.value:.2f}")),
    ("hit", WIDE, lambda row: _or_missing(row.hit, format_percent)),
    ("memory", WIDE, lambda row: _or_missing(row.peak_bytes or None, format_bytes)),
    ("repeated", WIDE, lambda row: Text(format_percent(row.repeated))),
    ("equal", 0, _equal),
)


def experiments_report(
    experiments: Sequence[Experiment], facts: Mapping[str, str], skipped: Mapping[str, str], width: int = WIDE
) -> RenderableType:
    """Every table under its experiment's question; without intervals where `width` is small."""
    parts: list[RenderableType] = []
    for experiment in experiments:
        parts.append(Text.assemble((experiment.name, "bold"), "  ", experiment.question))
        for made in experiment.tables:
            parts += [Text(), Text(sanitize(made.title), "bold"), _rich(made, width)]
            if made.note:
                parts.append(Text(sanitize(made.note), QUIET))
        parts.append(Text())
    parts += [Text(sanitize(f"Left out: {name}: {why}"), AMBER) for name, why in skipped.items()]
    parts += [Text(sanitize(f"{name}: {value}"), QUIET) for name, value in facts.items()]
    return Group(*parts)


def _rich(made: Results, width: int) -> Table:
    numbers = [name for column, name in enumerate(made.header) if is_number_column(made, column)]
    shown = tables.table(*made.header, numbers=numbers)
    for row in made.rows:
        texts = map(format_cell, row)
        shown.add_row(*(tables.cell(text if width >= WIDE else _INTERVAL.sub("", text)) for text in texts))
    return shown
