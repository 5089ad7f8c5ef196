"""The plots of a benchmark's rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from specextend_cli.bench.records import PLAIN, format_length
from specextend_cli.bench.rows import Row
from specextend_cli.bench.statistics import Interval
from specextend_cli.bench.tables import HeatMap, LinePlot, Plot, Point, Series, StackedBars

LONGEST = 12
"""Accepted lengths from here on share a column."""


def charts(rows: Sequence[Row]) -> tuple[Plot, ...]:
    """Every plot that has data."""
    made = (
        decoding_speedup(rows),
        _by_length(rows, "End to end: speedup over plain", "times plain", lambda row: row.total_speedup),
        accepted_lengths(rows),
        step_shares(rows),
        *(distribution(rows, length) for length in sorted({row.length for row in rows})),
    )
    return present(made)


def present(plots: Sequence[Plot | None]) -> tuple[Plot, ...]:
    """The plots that are there."""
    return tuple(plot for plot in plots if plot is not None)


def decoding_speedup(rows: Sequence[Row]) -> LinePlot | None:
    """Decoding speed over plain decoding, by prompt length."""
    return _by_length(rows, "Decoding: speedup over plain", "times plain", lambda row: row.decode_speedup)


def accepted_lengths(rows: Sequence[Row]) -> LinePlot | None:
    """Tokens a verification step, by prompt length."""
    return _by_length(
        rows,
        "Accepted length, bonus token included",
        "tokens per verification step",
        lambda row: row.accepted if _drafts(row) else None,
    )


def step_shares(rows: Sequence[Row]) -> StackedBars | None:
    """Decoding time by part, for the methods that draft."""
    order = list(dict.fromkeys(row.method for row in rows))
    shown = [(row, row.shares) for row in rows if row.shares is not None and row.shares.verify < 1 and _drafts(row)]
    shown.sort(key=lambda pair: (order.index(pair[0].method), pair[0].length))
    if not shown:
        return None
    return StackedBars(
        "Where decoding time goes",
        "share of decoding time",
        tuple(f"{row.method} · {format_length(row.length)}" for row, _ in shown),
        ("draft", "verify", "retrieve", "host"),
        tuple((parts.draft, parts.verify, parts.retrieve, parts.host) for _, parts in shown),
    )


def distribution(rows: Sequence[Row], length: int) -> HeatMap | None:
    """How often a verification step emits how many tokens, at one prompt length."""
    shown = [row for row in rows if row.length == length and _drafts(row)]
    if not shown:
        return None
    longest = max(size for row in shown for size in row.accepted_counts)
    columns = [str(size) for size in range(1, min(longest, LONGEST) + 1)]
    values = []
    for row in shown:
        counts = [0] * len(columns)
        for size, count in row.accepted_counts.items():
            counts[min(size, len(columns)) - 1] += count
        values.append(tuple(count / row.accepted_counts.total() for count in counts))
    return HeatMap(
        f"Tokens per verification step, prompts of {format_length(length)} tokens",
        "tokens a step emits, bonus included (share of all steps)",
        "method",
        (*columns[:-1], columns[-1] + ("+" if longest > LONGEST else "")),
        tuple(row.method for row in shown),
        tuple(values),
        low=0.0,
        percent=True,
    )


def _drafts(row: Row) -> bool:
    """Whether any step emitted more than one token."""
    return any(size > 1 for size in row.accepted_counts)


def _by_length(
    rows: Sequence[Row], title: str, y_label: str, pick: Callable[[Row], Interval | None]
) -> LinePlot | None:
    """A line a method, and plain decoding's 1. A method's look is its place among all methods of the benchmark."""
    points: dict[str, list[Point]] = {row.method: [] for row in rows if row.method != PLAIN}
    for row in rows:
        if row.method != PLAIN and (interval := pick(row)) is not None:
            points[row.method].append(Point(row.length, interval.value, interval.low, interval.high))
    series = tuple(Series(method, tuple(own), look) for look, (method, own) in enumerate(points.items()) if own)
    if not series:
        return None
    note = "Error bars: 95% interval over documents."
    return LinePlot(title, "prompt (tokens)", y_label, series, True, 1.0, "plain", note=note)
