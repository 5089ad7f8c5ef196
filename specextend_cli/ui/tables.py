"""Tables, lists and small charts: plans, presets, models, failures, checks. `Output` prints what is returned here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Literal

from rich import box
from rich.table import Table
from rich.text import Text

from specextend_cli.humanize import (
    format_bytes,
    format_count,
    format_seconds,
)
from specextend_cli.ui.output import AMBER, GOOD, QUIET, sanitize

if TYPE_CHECKING:
    from specextend_cli.errors import SpecextendError
    from specextend_cli.summarize.events import Plan


LABELS = 10  # columns of the names of statistics
BLOCKS = "▁▂▃▄▅▆▇█"
BINS = 6  # of accepted lengths
WHOLE = 96  # columns; of a narrower table, parts are left out


def table(*columns: str, numbers: Iterable[str] = ()) -> Table:
    """An empty table in the common style; the columns named in `numbers` are right-aligned."""
    numbers = set(numbers)
    made = Table(box=box.SIMPLE_HEAD, header_style="bold", border_style=QUIET, pad_edge=False, show_edge=False)
    for column in columns:
        made.add_column(column, justify="right" if column in numbers else "left", overflow="fold")
    return made


def cell(value: object, style: str = "") -> Text:
    """A table's cell: untrusted text, never markup."""
    return Text(sanitize(str(value)), style=style)


def plan_table(plans: Sequence[Plan], seconds: Sequence[float | None], memory: int | None, *, width: int) -> Table:
    """One row per document, in `width` columns: its plan, expected seconds, and bytes of memory; None: unknown."""
    whole = width >= WHOLE
    numbers = ("pages", "tokens", "prompts", *(["largest"] if whole else []), "levels", "time", "memory")
    made = table("document", *numbers, numbers=numbers)
    made.padding = (0, 1, 0, 0)
    for column in made.columns[1:]:  # a long name is folded first
        column.no_wrap = True
    for plan, expected in zip(plans, seconds, strict=True):
        made.add_row(
            cell(plan.document),
            format_count(plan.pages),
            format_count(plan.tokens),
            format_count(len(plan.chunks)),
            *([format_count(max(plan.chunks, default=0))] if whole else []),
            "one pass" if plan.levels == 1 else str(plan.levels),
            "–" if expected is None else f"about {format_seconds(expected)}",
            "–" if memory is None else format_bytes(memory),
        )
    return made


def failure_table(failures: Sequence[tuple[str, SpecextendError]]) -> Table:
    """The failures of a batch, with reasons."""
    made = table("failed", "why")
    for name, error in failures:
        made.add_row(cell(name, "red"), cell(f"{error.what} ({error.why})" if error.why else error.what))
    return made


@dataclass(frozen=True)
class PresetRow:
    """A preset in a list; None: unknown. Not `complete`: `memory` excludes the draft's.

    `lacks_gpu`: it is made for one that this machine does not have.
    """

    name: str
    title: str
    drafter: str
    licence: str
    gated: bool
    tested: bool
    rank: int | None
    hallucinated: float | None
    context: int
    memory: int | None
    complete: bool
    disk: int
    present: bool
    fits: bool | None
    lacks_gpu: bool = False

    @property
    def obstacle(self) -> str:
        """Why it does not run on this machine, in two words; "" if it may."""
        return "too big" if self.fits is False else "on GPUs" if self.lacks_gpu else ""

    @property
    def order(self) -> tuple[int, float, str]:
        """What runs on this machine first, then by rank, those without one last, then by name."""
        last = {"": self.fits is None, "on GPUs": 2, "too big": 3}[self.obstacle]
        return last, self.rank or float("inf"), self.name


def preset_table(rows: Sequence[PresetRow], *, width: int | None = None, chosen: str | None = None) -> Table:
    """The presets, whether they are on disk and fit this machine, in `PresetRow.order`; `chosen` is the name to mark.

    `width` is the terminal's; None is a pipe, which gets all columns and no mark. A terminal's licence is the target's.
    """
    full, wide = width is None, width is None or width >= WHOLE
    names = ["preset", "context", "memory", "on disk", *(["invents", "tested"] if wide else []), "licence"]
    made = table(*names, *(["title"] if full else []), numbers=("context", "memory", "invents"))
    made.padding = (0, 1, 0, 0)
    made.columns[0].min_width = 2 + max((len(row.name) for row in rows), default=0)  # names are typed: never cut them
    for column in made.columns[1:-1]:
        column.no_wrap = not full
    for row in sorted(rows, key=lambda row: row.order):
        memory = "?" if row.memory is None else "over " * (not row.complete) + format_bytes(row.memory)
        mark = "› " if row.name == chosen else "  "
        share = None if row.hallucinated is None else f"{100 * row.hallucinated:.1f}%"
        said = [
            Text(share or "–", style="" if share else QUIET),
            Text("yes", style=GOOD) if row.tested else Text("no", style=QUIET),
        ]
        licence = row.licence if full else row.licence.partition(";")[0]
        made.add_row(
            cell(row.name if full else f"{mark}{row.name}", "bold"),
            format_count(row.context),
            Text(f"{row.obstacle} {memory}", style=AMBER)
            if row.obstacle
            else Text(memory, style=GOOD if row.fits else ""),
            Text(format_bytes(row.disk), style=GOOD) if row.present else Text("no", style=QUIET),
            *(said if wide else ()),
            cell(f"{licence}{', gated' if row.gated else ''}"),
            *([cell(row.title)] if full else ()),
        )
    return made


def model_table(rows: Sequence[PresetRow]) -> Table:
    """The presets of which models are on disk, how large those are, and whether something is missing."""
    made = table("preset", "on disk", "missing", "licence", numbers=("on disk",))
    for row in rows:
        missing = Text("–", style=QUIET) if row.present else Text("a part", style=AMBER)
        made.add_row(cell(row.name, "bold"), format_bytes(row.disk), missing, cell(row.licence))
    return made


@dataclass(frozen=True)
class Check:
    """One finding of `doctor`: the value, what it costs, and the command that fixes it.

    "bad": a required part is missing; "poor": a part is missing that makes things slower or impossible.
    """

    name: str
    value: str
    state: Literal["ok", "poor", "bad"] = "ok"
    fix: str = ""
    cost: str = ""

    def __str__(self) -> str:
        return f"{self.value}; {self.cost}" if self.cost else self.value


_MARKS = {"ok": ("✓", GOOD), "poor": ("!", AMBER), "bad": ("✗", "red")}


def format_checks(checks: Sequence[Check]) -> Text:
    """One line per check; what is found begins at `names_width`."""
    width = names_width(checks)
    return Text("\n").join(
        Text.assemble(_MARKS[check.state], f" {check.name}".ljust(width - 1), sanitize(str(check))) for check in checks
    )


def names_width(checks: Sequence[Check]) -> int:
    """Columns of the marks and names of checks."""
    return max((len(check.name) for check in checks), default=0) + 4


def worst(checks: Sequence[Check]) -> Check | None:
    """The finding to fix first: the first bad one, else the first poor one that has a fix."""
    for state in ("bad", "poor"):
        for check in checks:
            if check.state == state and check.fix:
                return check
    return None


def block(share: float) -> str:
    """The block character whose height shows `share` of one."""
    return BLOCKS[min(int(share * len(BLOCKS)), len(BLOCKS) - 1)]


def histogram(lengths: Mapping[int, int]) -> list[tuple[str, float]]:
    """Accepted lengths in the bins "1" ... "6+", each with its share of all steps."""
    total = sum(lengths.values()) or 1
    counts = [0] * BINS
    for length, count in lengths.items():
        counts[min(length, BINS) - 1] += count
    return [(f"{size}+" if size == BINS else str(size), count / total) for size, count in enumerate(counts, start=1)]


def density(spans: Sequence[tuple[int, int]], length: int, cells: int) -> list[float]:
    """The share, 0 to 1, of each of `cells` equal parts of `length` positions that the half-open `spans` cover."""
    covered = [0.0] * cells
    if not length:
        return covered
    width = length / cells
    for start, end in spans:
        for cell in range(int(start / width), min(ceil(end / width), cells)):
            covered[cell] += max(min(end, (cell + 1) * width) - max(start, cell * width), 0.0)
    return [min(amount / width, 1.0) for amount in covered]
