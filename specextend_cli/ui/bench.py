"""A benchmark on a terminal: the tables of its experiments, and what they were measured on."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from specextend_cli.bench.formats import Table as Results
from specextend_cli.bench.formats import format_cell, format_length, is_number_column
from specextend_cli.bench.report import facts
from specextend_cli.bench.results import Benchmark, Record
from specextend_cli.humanize import format_seconds, format_speed
from specextend_cli.ui import tables
from specextend_cli.ui.output import QUIET, sanitize


def report(benchmark: Benchmark) -> RenderableType:
    """Every table under its experiment's question, then the machine and the settings."""
    parts: list[RenderableType] = []
    for experiment in benchmark.experiments:
        parts.append(Text.assemble((experiment.name, "bold"), "  ", experiment.question))
        for made in experiment.tables:
            parts += [Text(), Text(sanitize(made.title), "bold"), table(made)]
            if made.note:
                parts.append(Text(sanitize(made.note), QUIET))
        parts.append(Text())
    parts += [Text(sanitize(f"{name}: {value}"), QUIET) for name, value in facts(benchmark).items()]
    return Group(*parts)


def table(made: Results) -> Table:
    """A table of results; headings are broken between their words, cells are not."""
    numbers = [name for at, name in enumerate(made.header) if is_number_column(made, at)]
    shown = tables.table(*made.header, numbers=numbers)
    for row in made.rows:
        shown.add_row(*(Text(sanitize(format_cell(cell)), no_wrap=True) for cell in row))
    return shown


def format_record(record: Record) -> str:
    """One run in a line."""
    seconds = record.decode_seconds
    speed = f"{format_speed((len(record.tokens) - 1) / seconds)}, " if seconds else ""
    where = f"{record.method} · {format_length(record.length)} {record.document}"
    return f"{where} · {speed}prefill {format_seconds(record.prefill_seconds)}"
