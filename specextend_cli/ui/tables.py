"""Tables and lists: plans, presets, findings of `doctor`. `Output` prints what is returned here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich import box
from rich.table import Table
from rich.text import Text

from specextend_cli.humanize import format_bytes, format_count, format_seconds
from specextend_cli.ui.output import AMBER, GOOD, QUIET, sanitize

if TYPE_CHECKING:
    from specextend_cli.models.preset import Preset
    from specextend_cli.summarize.events import Plan


def table(*columns: str, numbers: Collection[str] = ()) -> Table:
    """An empty table in the common style; the columns named in `numbers` are right-aligned."""
    made = Table(box=box.SIMPLE_HEAD, header_style="bold", border_style=QUIET, pad_edge=False, show_edge=False)
    made.padding = (0, 1, 0, 0)
    for column in columns:
        made.add_column(column, justify="right" if column in numbers else "left", overflow="fold")
    return made


def cell(value: object, style: str = "") -> Text:
    """A table's cell: untrusted text, never markup."""
    return Text(sanitize(str(value)), style=style)


def plan_table(plans: Sequence[Plan], memory: int | None) -> Table:
    """One row per document; `memory` in bytes, None: no model runs, or its size is not known."""
    numbers = ("pages", "words", "prompts", "levels", "time", "memory")
    made = table("document", *numbers, numbers=numbers)
    for column in made.columns[1:]:  # a long name is folded first
        column.no_wrap = True
    for plan in plans:
        counts = (plan.pages, plan.words, plan.prompts, plan.levels)
        time = "–" if plan.seconds is None else f"about {format_seconds(plan.seconds)}"
        size = "–" if memory is None else format_bytes(memory)
        made.add_row(cell(plan.document), *map(format_count, counts), time, size)
    return made


@dataclass(frozen=True)
class PresetRow:
    """A preset in a list: its memory (None: unknown), bytes that were fetched, whether all of it is there.

    `obstacle`: why it does not run on this machine, or "".
    """

    preset: Preset
    memory: int | None
    disk: int
    present: bool
    obstacle: str

    @property
    def order(self) -> tuple[bool, float, str]:
        """What runs on this machine first, then by rank, those without one last, then by name."""
        return bool(self.obstacle), self.preset.rank or float("inf"), self.preset.name

    @property
    def invents(self) -> float | None:
        """The share of its summaries with something that their text does not say, where it was measured."""
        return self.preset.evidence.hallucinated if self.preset.evidence else None


def preset_table(rows: Sequence[PresetRow], *, chosen: str | None) -> Table:
    """One line a preset; `chosen` is the name to mark."""
    made = table("", "preset", "on disk", "memory", "window", "invents", "licence", numbers=("memory", "window"))
    for column in made.columns[:-1]:
        column.no_wrap = True
    for row in rows:
        preset, need = row.preset, row.memory
        memory = "?" if need is None else format_bytes(need)
        disk = format_bytes(row.disk) if row.present else f"{format_bytes(row.disk)} of it" if row.disk else "no"
        made.add_row(
            "›" if preset.name == chosen else "",
            cell(preset.name, "bold"),
            Text(disk, style=GOOD if row.present else QUIET),
            Text(f"{row.obstacle}, {memory}" if row.obstacle else memory, style=AMBER if row.obstacle else ""),
            format_count(preset.window.context),
            "–" if row.invents is None else f"{100 * row.invents:.1f}%",
            cell(f"{preset.licence.partition(';')[0]}{', gated' if preset.gated else ''}"),
        )
    return made


BLOCKS = "▁▂▃▄▅▆▇█"
BINS = 6  # of accepted lengths
_MARKS: Mapping[str, tuple[str, str]] = {"ok": ("✓", GOOD), "poor": ("!", AMBER), "bad": ("✗", "red")}


def format_checks(checks: Sequence[tuple[str, str, str]]) -> Table:
    """One line per check of `doctor`: its state, its name and what was found."""
    grid = Table.grid(padding=(0, 1))
    for state, name, found in checks:
        grid.add_row(Text(*_MARKS[state]), name, cell(found))
    return grid


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


def density(positions: Iterable[int], length: int, cells: int) -> list[float]:
    """The share, 0 to 1, of each of `cells` equal parts of `length` positions that is among these `positions`."""
    found = Counter(at * cells // length for at in positions)
    return [min(found[cell] * cells / length, 1.0) for cell in range(cells)]
