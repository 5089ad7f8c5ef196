"""The result of `compare` as a table and as JSON."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.text import Text

from specextend_cli.humanize import (
    format_count,
    format_many,
    format_percent,
    format_seconds,
    format_speed,
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
    from specextend_cli.summarize.events import Summary


def comparison(found: Comparison) -> RenderableType:
    """Plain and accelerated decoding side by side, the verdict, and the load of the machine."""
    plain, fast = found.plain, found.accelerated
    several = len(found.pairs) > 1 or found.passes > 1
    rows = [
        ("drafter", plain.drafter, fast.drafter),
        (
            "tokens of all texts" if several else "tokens",
            format_count(plain.meter.tokens),
            format_count(fast.meter.tokens),
        ),
        ("accepted length", f"{plain.meter.accepted_length:.2f}", f"{fast.meter.accepted_length:.2f}"),
    ]
    if fast.meter.hit is not None:
        rows.append(("retrieval hits", "–", format_percent(fast.meter.hit)))
    if found.pairs:
        for label, figure, form in _FIGURES:
            values = [(figure(pair.plain), figure(pair.accelerated)) for pair in found.pairs]
            left, right = (form(median(side)) for side in zip(*values, strict=True))
            rows.append((f"median text: {label}" if several else label, left, right))
    made = table("", "plain", "accelerated", numbers=("plain", "accelerated"))
    for label, left, right in rows:
        made.add_row(Text(label, style=QUIET), cell(left), cell(right))
    if found.divergence is None:
        identity = Text("identical tokens", style=GOOD)
    else:
        why = "half precision rounds trees differently; --dtype float32 is exact"
        identity = Text(f"the tokens differ from number {found.divergence + 1} on ({why})", style=AMBER)
    verdict = Text(" · ").join((identity, _speed(found)))
    return Group(made, Text(), verdict, format_load(found.load))


def side_name(plain: bool) -> str:
    """What one of the two ways is called."""
    return "plain decoding" if plain else "SpecExtend"


def format_side(name: str, summary: Summary) -> str:
    """ "SpecExtend: read in 4.1 s, 192 tokens written in 0.8 s at 240 tok/s, accepted length 1.9, hits 83%"."""
    meter = summary.meter
    if not meter.tokens:
        return f"{name}: nothing to write"
    written = f"{format_many(meter.tokens, 'token')} written in {format_seconds(meter.decode_seconds)}"
    speed = format_speed(meter.tokens_per_second)
    pieces = [f"read in {format_seconds(meter.prefill_seconds)}", f"{written} at {speed}" if speed else written]
    if meter.drafted_steps:
        pieces.append(f"accepted length {meter.accepted_length:.2f}")
    if meter.hit is not None:
        pieces.append(f"hits {format_percent(meter.hit)}")
    return f"{name}: {', '.join(pieces)}"


_FIGURES: tuple[tuple[str, Callable[[Meter], float], Callable[[float], str]], ...] = (
    ("tokens a second", lambda meter: meter.tokens_per_second, "{:.1f}".format),
    ("reading", lambda meter: meter.prefill_seconds, format_seconds),
    ("writing", lambda meter: meter.decode_seconds, format_seconds),
)


def _speed(found: Comparison) -> Text:
    speedup = found.speedup
    if speedup is None:
        nothing = found.pairs and not any(pair.accelerated.drafted_steps for pair in found.pairs)
        return Text(
            "nothing was drafted: no gain was expected" if nothing else "too few tokens to compare speeds", style=QUIET
        )
    style = AMBER if is_slower(speedup.value) else GOOD
    text = Text(f"{format_speedup(speedup.value)} plain decoding", style=style)
    if found.passes == speedup.n == 1:
        return text.append(" (one text, measured once)", style=QUIET)
    pairs = format_many(speedup.n, "pair")
    if speedup.low is None or speedup.high is None:
        return text.append(f" ({pairs}: too few for an interval)", style=QUIET)
    interval = f"{format_speedup(speedup.low)} to {format_speedup(speedup.high)}"
    return text.append(f" (median of {pairs}; 95% interval {interval})", style=QUIET)


def format_load(load: Load) -> Text:
    """ "2 cores, 1.3 busy with other work: results may differ on an idle machine; load average 8.1 before …"."""
    others = f"{load.others:.1f} busy with other work"
    text = Text.assemble(f"{format_many(load.cores, 'core')}, ", (others, AMBER if load.busy else ""), style=QUIET)
    if load.busy:
        text.append(": results may differ on an idle machine", style=AMBER)
    return text.append("; load average {:.1f} before and {:.1f} after".format(*load.averages))


def comparison_record(found: Comparison) -> dict[str, Any]:
    """The comparison as a JSON record."""
    speedup = found.speedup
    return {
        "plain": summary_record(found.plain),
        "accelerated": summary_record(found.accelerated),
        "divergence": found.divergence,
        "passes": found.passes,
        "speedup": None
        if speedup is None
        else {"median": speedup.value, "low": speedup.low, "high": speedup.high, "pairs": speedup.n},
        "ratios": [round(pair.ratio, 4) for pair in found.pairs],
        "load": {
            "cores": found.load.cores,
            "busy_with_others": round(found.load.others, 2),
            "averages": [round(one, 2) for one in found.load.averages],
        },
    }
