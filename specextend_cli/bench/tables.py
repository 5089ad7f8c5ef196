"""What an experiment returns: a question, tables and plots as plain data; and tables as text.

`bench.plots` draws the plots, `bench.report` writes the HTML page.
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Literal, NamedTuple, TypeAlias

from specextend_cli.humanize import printable

Cell: TypeAlias = str | float | int | None  # None is "not measured", never zero

Format: TypeAlias = Literal["md", "csv", "json", "jsonl"]

MISSING = "–"  # a cell without a value, for people; files for programs have an empty field or null


@dataclass(frozen=True, slots=True)
class Table:
    """Rows as long as the header. Numbers stay numbers: only `format_cell` rounds them."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""

    def __post_init__(self) -> None:
        wrong = [row for row in self.rows if len(row) != len(self.header)]
        if wrong:
            raise ValueError(f"a row of {len(wrong[0])} cells under a header of {len(self.header)}: {wrong[0]!r}")

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
class LinePlot:
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
class HeatMap:
    """`values[row][column]`, shares of one as colours and percentages; None is not measured."""

    title: str
    x_label: str
    y_label: str
    values: Mapping[str, Mapping[str, float | None]]


Plot: TypeAlias = LinePlot | HeatMap


@dataclass(frozen=True, slots=True)
class Experiment:
    """A named experiment, the question it answers in one sentence, and its results."""

    name: str
    question: str
    tables: tuple[Table, ...] = ()
    plots: tuple[Plot, ...] = ()


def format_cell(value: Cell) -> str:
    """A cell for people: three significant digits, thousands apart, "–" for not measured.

    >>> format_cell(1.23456), format_cell(12345.6), format_cell(None)
    ('1.23', '12,346', '–')
    """
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return MISSING
    if isinstance(value, str):
        return one_line(value)
    if isinstance(value, int) or not math.isfinite(value):
        return f"{value:,}"
    if value == 0 or not 0.001 <= abs(value) < 1000:
        return f"{value:,.0f}" if value == 0 or abs(value) >= 1000 else f"{value:.2g}"
    return f"{value:.{max(2 - math.floor(math.log10(abs(value))), 0)}f}"


def one_line(text: str) -> str:
    """Untrusted text on one line, without control characters."""
    return printable(" ".join(text.split()))


def is_number_column(table: Table, column: int) -> bool:
    """True if to align a column to the right: numbers, or text that starts like one ("1.9× (1.7-2.1)")."""
    known = [row[column] for row in table.rows if row[column] is not None]
    return bool(known) and all(not isinstance(cell, str) or cell[:1].isdigit() or cell == MISSING for cell in known)


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
    """The header and the rows, numbers in full, an empty field for not measured."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow([one_line(name) for name in table.header])
    writer.writerows([one_line(cell) if isinstance(cell, str) else _finite(cell) for cell in row] for row in table.rows)
    return buffer.getvalue()


def render(experiment: Experiment, format: Format, facts: Mapping[str, str] | None = None, **more: object) -> str:
    """An experiment as text that ends with a newline. CSV separates its tables by an empty line.

    JSON lines have one line a row, each with the table's title. Markdown and JSON have the `facts`, which say what the
    tables belong to; only JSON has the plots and `more`.
    """
    match format:
        case "md":
            head = f"## {escape(experiment.name)}\n\n{escape(experiment.question)}\n"
            listed = "".join(f"- {escape(name)}: {escape(value)}\n" for name, value in (facts or {}).items())
            return "\n".join([head, *map(to_markdown, experiment.tables), *([listed] if listed else [])])
        case "csv":
            return "\n".join(map(to_csv, experiment.tables))
        case "json":
            return dumps(to_plain(experiment) | ({"facts": facts} if facts else {}) | more, indent=2) + "\n"
        case "jsonl":
            lines = (
                {"experiment": experiment.name, "table": table.title, **dict(zip(table.header, row, strict=True))}
                for table in experiment.tables
                for row in table.rows
            )
            return "".join(f"{dumps(line)}\n" for line in lines)


def to_plain(experiment: Experiment) -> dict[str, object]:
    """An experiment as JSON values; each plot says its kind."""
    plots = [{"kind": type(plot).__name__, **asdict(plot)} for plot in experiment.plots]
    return {**asdict(experiment), "plots": plots}


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
