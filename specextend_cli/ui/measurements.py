"""Measurements as tables: a benchmark's, and the two sides of `compare`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from itertools import accumulate
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from specextend_cli.bench.comparison import Comparison
from specextend_cli.bench.formats import Table as Results
from specextend_cli.bench.formats import format_cell, format_length, is_number_column
from specextend_cli.bench.machine import Load
from specextend_cli.bench.report import facts
from specextend_cli.bench.results import Benchmark, Record
from specextend_cli.engine.meter import Meter
from specextend_cli.humanize import (
    format_count,
    format_many,
    format_percent,
    format_seconds,
    format_speed,
    format_speedup,
    is_slower,
)
from specextend_cli.ui import tables
from specextend_cli.ui.output import AMBER, GOOD, QUIET, sanitize
from specextend_cli.ui.results import summary_record


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
    """The first columns of a table of results that fit into `width`; headings are broken between their words."""
    rows = [[format_cell(cell) for cell in row] for row in made.rows]
    needed = [2 + max(map(len, (*name.split(), *(row[at] for row in rows)))) for at, name in enumerate(made.header)]
    count = max(sum(total <= width for total in accumulate(needed)), 1)  # with a gap of two columns
    numbers = [name for at, name in enumerate(made.header) if is_number_column(made, at)]
    shown = tables.table(*made.header[:count], numbers=numbers)
    for row in rows:
        shown.add_row(*(Text(sanitize(cell), no_wrap=True) for cell in row[:count]))
    return shown


def format_record(record: Record) -> str:
    """One run in a line."""
    seconds = record.decode_seconds
    speed = f"{format_speed((len(record.tokens) - 1) / seconds)}, " if seconds else ""
    where = f"{record.method} · {format_length(record.length)} {record.document}"
    return f"{where} · {speed}prefill {format_seconds(record.prefill_seconds)}"


def comparison(found: Comparison) -> RenderableType:
    """Plain decoding and SpecExtend side by side, the verdict, and the load of the machine."""
    plain, fast = found.plain.meter, found.accelerated.meter
    made = tables.table("", "plain", "SpecExtend", numbers=("plain", "SpecExtend"))
    made.add_row(Text("drafter", style=QUIET), tables.cell(found.plain.drafter), tables.cell(found.accelerated.drafter))
    for label, figure in _FIGURES:
        made.add_row(Text(label, style=QUIET), figure(plain), figure(fast))
    if found.divergence is None:
        identity = Text("identical tokens", style=GOOD)
    else:
        at, why = found.divergence + 1, "half precision rounds trees differently"
        identity = Text(f"the tokens differ from number {at} on ({why})", style=AMBER)
    return Group(made, Text(), Text(" · ").join((identity, _speed(found))), format_load(found.load))


_FIGURES: tuple[tuple[str, Callable[[Meter], str]], ...] = (
    ("tokens", lambda meter: format_count(meter.tokens)),
    ("tokens a second", lambda meter: f"{meter.tokens_per_second:.1f}"),
    ("reading", lambda meter: format_seconds(meter.prefill_seconds)),
    ("writing", lambda meter: format_seconds(meter.decode_seconds)),
    ("accepted length", lambda meter: f"{meter.accepted_length:.2f}"),
    ("retrieval hits", lambda meter: "–" if meter.hit is None else format_percent(meter.hit)),
)


def _speed(found: Comparison) -> Text:
    if found.speedup is None:
        return Text("too few tokens, or none drafted, to compare speeds", style=QUIET)
    style = AMBER if is_slower(found.speedup) else GOOD
    text = Text(f"{format_speedup(found.speedup)} plain decoding", style=style)
    return text.append(" (one text, measured once)", style=QUIET)


def format_load(load: Load) -> Text:
    """ "2 cores, 1.3 busy with other work: results may differ on an idle machine; load average 8.1 before …"."""
    busy = ": results may differ on an idle machine" if load.busy else ""
    averages = "load average {:.1f} before and {:.1f} after".format(*load.averages)
    line = f"{format_many(load.cores, 'core')}, {load.others:.1f} busy with other work{busy}; {averages}"
    return Text(line, style=AMBER if load.busy else QUIET)


def comparison_record(found: Comparison) -> dict[str, Any]:
    """The comparison as a JSON record."""
    sides = {"plain": summary_record(found.plain), "accelerated": summary_record(found.accelerated)}
    return {**sides, "divergence": found.divergence, "speedup": found.speedup, "load": asdict(found.load)}
