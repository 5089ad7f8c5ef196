"""The result of `compare` as a table and as JSON."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.text import Text

from specextend_cli.humanize import (
    format_count,
    format_many,
    format_percent,
    format_seconds,
    format_speedup,
    is_slower,
)
from specextend_cli.ui.output import AMBER, GOOD, QUIET
from specextend_cli.ui.results import summary_record
from specextend_cli.ui.tables import cell, table

if TYPE_CHECKING:
    from specextend_cli.bench.comparison import Comparison
    from specextend_cli.bench.machine import Load
    from specextend_cli.engine.meter import Meter


def comparison(found: Comparison) -> RenderableType:
    """Plain decoding and SpecExtend side by side, the verdict, and the load of the machine."""
    plain, fast = found.plain.meter, found.accelerated.meter
    made = table("", "plain", "SpecExtend", numbers=("plain", "SpecExtend"))
    made.add_row(Text("drafter", style=QUIET), cell(found.plain.drafter), cell(found.accelerated.drafter))
    for label, figure in _FIGURES:
        made.add_row(Text(label, style=QUIET), figure(plain), figure(fast))
    if found.divergence is None:
        identity = Text("identical tokens", style=GOOD)
    else:
        at, why = found.divergence + 1, "half precision rounds trees differently"
        identity = Text(f"the tokens differ from number {at} on ({why})", style=AMBER)
    return Group(made, Text(), Text(" · ").join((identity, _speed(found))), format_load(found.load))


def side_name(plain: bool) -> str:
    """What one of the two ways is called."""
    return "plain decoding" if plain else "SpecExtend"


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
        drafted = found.accelerated.meter.drafted_steps
        return Text("too few tokens to compare speeds" if drafted else "nothing was drafted", style=QUIET)
    style = AMBER if is_slower(found.speedup) else GOOD
    text = Text(f"{format_speedup(found.speedup)} plain decoding", style=style)
    return text.append(" (one text, measured once)", style=QUIET)


def format_load(load: Load) -> Text:
    """ "2 cores, 1.3 busy with other work: results may differ on an idle machine; load average 8.1 before …"."""
    others = f"{load.others:.1f} busy with other work"
    text = Text.assemble(f"{format_many(load.cores, 'core')}, ", (others, AMBER if load.busy else ""), style=QUIET)
    if load.busy:
        text.append(": results may differ on an idle machine", style=AMBER)
    return text.append("; load average {:.1f} before and {:.1f} after".format(*load.averages))


def comparison_record(found: Comparison) -> dict[str, Any]:
    """The comparison as a JSON record."""
    sides = {"plain": summary_record(found.plain), "accelerated": summary_record(found.accelerated)}
    return {**sides, "divergence": found.divergence, "speedup": found.speedup, "load": asdict(found.load)}
