"""What an experiment returns: a question, tables and plots as plain data; and tables as Markdown, CSV and JSON.

`bench.plots` draws the plots, `bench.report` writes the HTML page.
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from specextend_cli.humanize import printable


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate over documents. One document has no interval: `low` and `high` are None."""

    value: float
    low: float | None
    high: float | None


Cell: TypeAlias = str | float | int | Interval | None  # None is "not measured", never zero

Format: TypeAlias = Literal["md", "csv", "json"]

MISSING = "–"  # a cell without a value, for people; files for programs have an empty field or null


@dataclass(frozen=True, slots=True)
class Table:
    """Rows as long as the header. Numbers stay numbers: only `format_cell` rounds them."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""

    @classmethod
    def of(cls, title: str, rows: Iterable[Mapping[str, Cell]], note: str = "") -> Table:
        """A table of `rows` that all have the same columns, in the same order."""
        rows = list(rows)
        return cls(title, tuple(rows[0] if rows else ()), tuple(tuple(row.values()) for row in rows), note)


class Point(NamedTuple):
    """A measured point; `low` and `high` bound its interval, if it has one."""

    x: float
    y: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class Plot:
    """Named lines of points by ascending x, on a logarithmic axis. Labels carry the units ("prompt (tokens)").

    A line's place decides its colour and mark, also if it has no points, so that a method looks alike in all plots.
    `over_plain`: the values are ratios to plain decoding, which is drawn as a line at 1.
    """

    title: str
    x_label: str
    y_label: str
    lines: Mapping[str, Sequence[Point]]
    note: str = ""
    over_plain: bool = False


@dataclass(frozen=True, slots=True)
class Experiment:
    """A named experiment, the question it answers in one sentence, and its results."""

    name: str
    question: str
    tables: tuple[Table, ...] = ()
    plots: tuple[Plot, ...] = ()


def format_cell(value: Cell) -> str:
    """A cell for people: three significant digits, thousands apart, "–" for not measured; "1.92 (1.80-2.05)".

    >>> format_cell(1.23456), format_cell(12345.6), format_cell(None)
    ('1.23', '12,346', '–')
    """
    if isinstance(value, Interval):
        alone = value.low is None or value.low == value.high
        return f"{value.value:.2f}" if alone else f"{value.value:.2f} ({value.low:.2f}-{value.high:.2f})"
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return MISSING
    if isinstance(value, str):
        return one_line(value)
    if isinstance(value, int) or not math.isfinite(value):
        return f"{value:,}"
    if value == 0 or not 0.001 <= abs(value) < 1000:
        return f"{value:,.0f}" if value == 0 or abs(value) >= 1000 else f"{value:.2g}"
    return f"{value:.{max(2 - math.floor(math.log10(abs(value))), 0)}f}"


def format_length(length: int) -> str:
    """`16K`, or the number itself if it is no multiple of 1,024."""
    return f"{length // 1024}K" if length and length % 1024 == 0 else str(length)


def one_line(text: str) -> str:
    """Untrusted text on one line, without control characters."""
    return printable(" ".join(text.split()))


def is_number_column(table: Table, column: int) -> bool:
    """True if to align a column to the right."""
    return not any(isinstance(row[column], str) for row in table.rows)


def to_markdown(table: Table) -> str:
    """A heading, a pipe table with numbers to the right, and the note."""
    numbers = [is_number_column(table, column) for column in range(len(table.header))]
    lines = [
        f"### {escape(table.title)}",
        "",
        _pipes(table.header),
        "|" + "|".join("---:" if number else "---" for number in numbers) + "|",
        *(_pipes([format_cell(cell) for cell in row]) for row in table.rows),
    ]
    return "\n".join([*lines, *(["", escape(table.note)] if table.note else [])]) + "\n"


def to_csv(table: Table) -> str:
    """The header and the rows, numbers in full, an empty field for not measured; an interval has three columns."""
    split = [any(isinstance(row[at], Interval) for row in table.rows) for at in range(len(table.header))]
    header = [
        (name, f"{name} low", f"{name} high") if of else (name,) for name, of in zip(table.header, split, strict=True)
    ]
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow([one_line(name) for names in header for name in names])
    for row in table.rows:
        cells = [_fields(cell, of) for cell, of in zip(row, split, strict=True)]
        writer.writerow([cell for of in cells for cell in of])
    return buffer.getvalue()


def _fields(cell: Cell, split: bool) -> tuple[object, ...]:
    if split:
        return (cell.value, cell.low, cell.high) if isinstance(cell, Interval) else (None,) * 3
    return (one_line(cell) if isinstance(cell, str) else _finite(cell),)


def dumps(value: object, indent: int | None = None) -> str:
    """Strict JSON: NaN and infinity become null, control characters are escaped, lone surrogates become U+FFFD."""
    text = json.dumps(_finite(value), ensure_ascii=False, indent=indent, allow_nan=False)
    return _INERT.sub(lambda match: f"\\u{ord(match[0]):04x}", _SURROGATE.sub("\ufffd", text))


_INERT = re.compile("[\x7f-\x9f\u2028\u2029]")  # the C0 controls are escaped by json itself
_SURROGATE = re.compile("[\ud800-\udfff]")


def _finite(value: object) -> object:
    """`value` with None for numbers that JSON cannot write."""
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _pipes(cells: Sequence[str]) -> str:
    return "| " + " | ".join(escape(cell) for cell in cells) + " |"


_MARKDOWN = re.compile(r"([\\`*_\[\]<>|&#~$])")


def escape(text: str) -> str:
    """Untrusted text that Markdown shows literally."""
    return _MARKDOWN.sub(r"\\\1", one_line(text))
