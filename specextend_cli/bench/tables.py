"""What an experiment returns: a question, tables and plots as plain data; and tables as text.

`bench.plots` draws the plots, `bench.report` writes the HTML page.
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Literal, NamedTuple, TypeAlias

from specextend_cli.documents.names import printable

Cell: TypeAlias = str | float | int | None
"""None is "not measured", never zero."""

Format: TypeAlias = Literal["md", "csv", "json", "jsonl"]

MISSING = "–"
"""A cell without a value, for people; files for programs have an empty field or null."""


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


class Point(NamedTuple):
    """A measured point; `low` and `high` bound its interval, if it has one."""

    x: float
    y: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class Series:
    """A line: its name and its points by ascending x.

    `look` numbers colour and mark (default: the place in the plot), so that a method looks alike in all plots.
    """

    name: str
    points: tuple[Point, ...]
    look: int | None = None


@dataclass(frozen=True, slots=True)
class LinePlot:
    """Lines over a common x axis. Labels carry the units ("prompt (tokens)").

    `log_x`: a logarithmic x axis. `reference`: a horizontal line, named by `reference_label`. `zero`: the y axis
    starts at 0.
    """

    title: str
    x_label: str
    y_label: str
    series: tuple[Series, ...]
    log_x: bool = False
    reference: float | None = None
    reference_label: str = ""
    zero: bool = True
    note: str = ""


@dataclass(frozen=True, slots=True)
class HeatMap:
    """`values[row][column]`, coloured and written into the cell; None is not measured.

    `low` and `high`: the ends of the colour scale (default: those of the values). `percent` writes 0.41 as 41%.
    """

    title: str
    x_label: str
    y_label: str
    columns: tuple[str, ...]
    rows: tuple[str, ...]
    values: tuple[tuple[float | None, ...], ...]
    low: float | None = None
    high: float | None = None
    percent: bool = False
    note: str = ""

    def __post_init__(self) -> None:
        if len(self.values) != len(self.rows) or any(len(row) != len(self.columns) for row in self.values):
            raise ValueError(f"a heat map needs {len(self.rows)} rows of {len(self.columns)} values")


@dataclass(frozen=True, slots=True)
class StackedBars:
    """A horizontal bar for each of `bars`, made of `parts`: `values[bar][part]`, absolute or as shares of one."""

    title: str
    x_label: str
    bars: tuple[str, ...]
    parts: tuple[str, ...]
    values: tuple[tuple[float, ...], ...]
    percent: bool = True
    note: str = ""

    def __post_init__(self) -> None:
        if len(self.values) != len(self.bars) or any(len(bar) != len(self.parts) for bar in self.values):
            raise ValueError(f"stacked bars need {len(self.bars)} rows of {len(self.parts)} values")


Plot: TypeAlias = LinePlot | HeatMap | StackedBars


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
    """Whether to align a column to the right: numbers, or text that starts like one ("1.9× (1.7-2.1)")."""
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


def render(experiment: Experiment, format: Format) -> str:
    """An experiment as text that ends with a newline. CSV separates its tables by an empty line.

    JSON lines have one line a row, each with the table's title; only JSON has the plots.
    """
    match format:
        case "md":
            head = f"## {escape(experiment.name)}\n\n{escape(experiment.question)}\n"
            return "\n".join([head, *map(to_markdown, experiment.tables)])
        case "csv":
            return "\n".join(map(to_csv, experiment.tables))
        case "json":
            return dumps(to_plain(experiment), indent=2) + "\n"
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
