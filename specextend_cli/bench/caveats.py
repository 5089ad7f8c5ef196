"""Provenance and caveats of a benchmark's tables."""

from __future__ import annotations

from collections.abc import Sequence

from specextend_cli.bench import quality
from specextend_cli.bench.records import PLAIN, Benchmark, format_length
from specextend_cli.bench.rows import Row
from specextend_cli.bench.tables import one_line
from specextend_cli.humanize import format_many

FEW = 5
"""Below this many documents the report warns that intervals say little."""


def provenance(benchmark: Benchmark) -> dict[str, str]:
    """Preset, machine, software and settings, by name, in display order."""
    machine = benchmark.machine
    commit = f" ({machine.commit})" if machine.commit else ""
    lines = {
        "preset": benchmark.preset,
        "device": machine.device,
        "processor": f"{machine.processor}, {format_many(machine.threads, 'thread')}",
        "software": (
            f"specextend {machine.version}{commit}, Python {machine.python}, torch {machine.torch}, "
            f"transformers {machine.transformers}"
        ),
        "seed": str(benchmark.seed),
        "settings": _settings(benchmark.settings),
    }
    return {name: one_line(value) for name, value in lines.items() if value}


def caveats(benchmark: Benchmark, rows: Sequence[Row]) -> tuple[str, ...]:
    """What limits the tables' validity, a sentence each."""
    found = []
    few = sorted({row.documents for row in rows if row.method != PLAIN and row.documents < FEW})
    if few:
        found.append(
            f"Small n: intervals rest on {format_many(few[-1], 'document')} or fewer; read them as a hint."
            if few[-1] > 1
            else "Small n: one document has no interval, and the next one may differ."
        )
    if rows and not any(row.method == PLAIN for row in rows):
        found.append("Plain decoding was not measured: there are no speedups, and no output was checked against it.")
    scaled = sorted({row.length for row in rows if row.scaled})
    if scaled:
        lengths = ", ".join(map(format_length, scaled))
        found.append(f"Scaled: prompts of {lengths} tokens pass the model's trained window; RoPE was stretched.")
    left = [row for row in rows if row.equal < row.compared]
    found += [
        _left(name, [row for row in left if row.method == name]) for name in dict.fromkeys(r.method for r in left)
    ]
    found += [f"Left out: {method}: {why}" for method, why in benchmark.skipped.items()]
    absent = quality.missing()
    if benchmark.references and absent:
        found.append(f"{absent}.")
    return tuple(one_line(sentence) for sentence in found)


def _left(method: str, rows: Sequence[Row]) -> str:
    """How often a method's output differs from plain decoding, at the lengths where it does."""
    gaps = [row.largest_gap for row in rows if row.largest_gap is not None]
    gap = f" (largest logit gap {max(gaps):.3g})" if gaps else ""
    runs = sum(row.compared for row in rows)
    return (
        f"Different output: {method} at {', '.join(format_length(row.length) for row in rows)} left plain decoding in "
        f"{runs - sum(row.equal for row in rows)} of {format_many(runs, 'run')}{gap}."
    )


def _setting(value: object) -> str:
    if isinstance(value, dict):
        return f"({_settings(value)})"
    if isinstance(value, (list, tuple)):
        return "/".join(map(_setting, value))
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else str(value)


def _settings(values: dict[str, object]) -> str:
    """The settings that were set, not None or empty."""
    return ", ".join(f"{name} {_setting(value)}" for name, value in values.items() if value not in (None, [], (), ""))
