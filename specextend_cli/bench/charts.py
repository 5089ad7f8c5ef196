"""Which plots a benchmark's rows make."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from specextend_cli.bench.lengths import format_length
from specextend_cli.bench.rows import BASELINE, Row
from specextend_cli.bench.statistics import Interval
from specextend_cli.bench.tables import HeatMap, LinePlot, Plot, Point, Series, StackedBars

LONGEST = 12
"""Accepted lengths from here on share a column."""


def charts(rows: Sequence[Row]) -> tuple[Plot, ...]:
    """Every plot that has something to show."""
    made = (
        speedups(rows, "Decoding", lambda row: row.decode_speedup),
        speedups(rows, "End to end", lambda row: row.total_speedup),
        accepted_lengths(rows),
        step_shares(rows),
        *(distribution(rows, length) for length in sorted({row.length for row in rows})),
    )
    return tuple(plot for plot in made if plot is not None)


def speedups(rows: Sequence[Row], what: str, pick: Callable[[Row], Interval | None]) -> LinePlot | None:
    """Times plain decoding, by length."""
    return _by_length(rows, f"{what}: speedup over plain", "times plain", pick)


def accepted_lengths(rows: Sequence[Row]) -> LinePlot | None:
    """Tokens a step, by length."""
    return _by_length(
        rows,
        "Accepted length, bonus token included",
        "tokens per verification step",
        lambda row: None if _steps_singly(row) else row.accepted,
    )


def step_shares(rows: Sequence[Row]) -> StackedBars | None:
    """What decoding time goes to, for the methods that draft."""
    order = list(dict.fromkeys(row.method for row in rows))
    shown = sorted(
        (
            (row, row.shares)
            for row in rows
            if row.shares is not None and row.shares.verify < 1 and not _steps_singly(row)
        ),
        key=lambda pair: (order.index(pair[0].method), pair[0].length),
    )
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
    """How often a verification step emits how many tokens, at one length."""
    shown = [row for row in rows if row.length == length and not _steps_singly(row)]
    if not shown:
        return None
    largest = min(max(size for row in shown for size in row.accepted_counts), LONGEST)
    columns = [str(size) for size in range(1, largest + 1)]
    columns[-1] += "+" if any(size > LONGEST for row in shown for size in row.accepted_counts) else ""
    values = []
    for row in shown:
        counts = [0] * largest
        for size, count in row.accepted_counts.items():
            counts[min(size, largest) - 1] += count
        values.append(tuple(count / row.accepted_counts.total() for count in counts))
    return HeatMap(
        f"Tokens per verification step, prompts of {format_length(length)} tokens",
        "tokens a step emits, bonus included (share of all steps)",
        "method",
        tuple(columns),
        tuple(row.method for row in shown),
        tuple(values),
        low=0.0,
        percent=True,
    )


def _steps_singly(row: Row) -> bool:
    """Whether no step of it emitted more than one token: plain decoding by any name, or a peer that does not say."""
    return not any(size > 1 for size in row.accepted_counts)


def _by_length(
    rows: Sequence[Row], title: str, y_label: str, pick: Callable[[Row], Interval | None]
) -> LinePlot | None:
    """A line a method, beside plain decoding's 1."""
    series = _series(rows, pick)
    if not series:
        return None
    return LinePlot(
        title,
        "prompt (tokens)",
        y_label,
        series,
        log_x=True,
        reference=1.0,
        reference_label="plain",
        note="Whiskers: 95% interval over documents.",
    )


def _series(rows: Sequence[Row], pick: Callable[[Row], Interval | None]) -> tuple[Series, ...]:
    """A line a method. Its look is its place among all methods, not among those that have this figure."""
    points: dict[str, list[Point]] = {row.method: [] for row in rows if row.method != BASELINE}
    for row in rows:
        if row.method != BASELINE and (interval := pick(row)) is not None:
            points[row.method].append(Point(row.length, interval.value, interval.low, interval.high))
    return tuple(Series(method, tuple(own), look) for look, (method, own) in enumerate(points.items()) if own)
