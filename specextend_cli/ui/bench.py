"""A benchmark on a terminal: the tables of its experiments, as many columns as fit, and what they were measured on."""

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

_LEAST = 2  # columns that are shown on the narrowest terminal
_GAP = 3  # columns of a terminal between two of a table


def report(benchmark: Benchmark, width: int) -> RenderableType:
    """Every table under its experiment's question, in `width` columns, then the machine and the settings."""
    parts: list[RenderableType] = []
    for experiment in benchmark.experiments:
        parts.append(Text.assemble((experiment.name, "bold"), "  ", experiment.question))
        for made in experiment.tables:
            parts += [Text(), Text(sanitize(made.title), "bold"), table(made, width)]
            if made.note:
                parts.append(Text(sanitize(made.note), QUIET))
        parts.append(Text())
    parts += [Text(sanitize(f"{name}: {value}"), QUIET) for name, value in facts(benchmark).items()]
    return Group(*parts)


def table(made: Results, width: int) -> Table:
    """The first columns of a table that fit into `width`; a heading is broken between its words."""
    rows = [[format_cell(cell) for cell in row] for row in made.rows]
    widths: list[int] = []
    for at, name in enumerate(made.header):
        needed = max(map(len, [*name.split(), *(row[at] for row in rows)]))
        if at >= _LEAST and sum(widths) + _GAP * at + needed > width:
            break
        widths.append(needed)
    header = made.header[: len(widths)]
    shown = tables.table(*header, numbers=[name for at, name in enumerate(header) if is_number_column(made, at)])
    if sum(widths) + _GAP * (len(widths) - 1) <= width:
        for column, needed in zip(shown.columns, widths, strict=True):
            column.width = needed
    for row in rows:
        shown.add_row(*map(tables.cell, row[: len(widths)]))
    return shown


def format_record(record: Record) -> str:
    """One run in a line."""
    seconds = record.decode_seconds
    speed = f"{format_speed((len(record.tokens) - 1) / seconds)}, " if seconds else ""
    where = f"{record.method} · {format_length(record.length)} {record.document}"
    return f"{where} · {speed}prefill {format_seconds(record.prefill_seconds)}"
