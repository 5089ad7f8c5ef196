"""Experiments on a terminal: their tables, and what they belong to. Plots are for the HTML report."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from rich.console import Group, RenderableType
from rich.table import Table as RichTable
from rich.text import Text

from specextend_cli.bench.tables import Experiment, Table, format_cell, is_number_column
from specextend_cli.ui.bench import WIDE
from specextend_cli.ui.streams import AMBER, QUIET, sanitize
from specextend_cli.ui.tables import cell, table

_INTERVAL = re.compile(r" \([\d.]+-[\d.]+\)$")


def report(
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


def _rich(made: Table, width: int) -> RichTable:
    numbers = [name for column, name in enumerate(made.header) if is_number_column(made, column)]
    shown = table(*made.header, numbers=numbers)
    for row in made.rows:
        texts = map(format_cell, row)
        shown.add_row(*(cell(text if width >= WIDE else _INTERVAL.sub("", text)) for text in texts))
    return shown
