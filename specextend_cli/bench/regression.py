"""What is worse than in an earlier benchmark. Ratios are compared, not seconds, because machines differ."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

from specextend_cli.bench.records import PLAIN, Benchmark, Record, format_length
from specextend_cli.bench.rows import Row, summarize
from specextend_cli.bench.statistics import Interval
from specextend_cli.bench.tables import one_line
from specextend_cli.errors import UsageError

SCOPE = frozenset({"methods", "lengths", "docs", "repeats"})
"""Settings that choose what is measured, not how. What both benchmarks have is compared."""

NOISE = 0.05  # a smaller fall never counts: with few documents the interval can be narrower than the clock's noise
NOISE_ALONE = 0.1  # the same for a single document, which has no interval


def regressions(old: Benchmark, new: Benchmark) -> tuple[str, ...]:
    """A sentence for each method and length that is worse than it was.

    Worse: a speedup or an accepted length below the old interval, or output that differs in a larger share of the runs.
    Methods, lengths and documents that only one of the two has are ignored. UsageError if the two were measured
    differently, or have nothing in common.
    """
    _check_settings(old, new)
    shared = set(map(_run, old.records)) & set(map(_run, new.records))
    if not shared:
        raise _incomparable("they share no method, length and document", "measure the same --methods, --len and texts")
    if not any(method == PLAIN for method, _, _ in shared):
        raise _incomparable("speedups need plain decoding in both", f"add {PLAIN} to --methods")

    def rows(benchmark: Benchmark) -> dict[tuple[str, int], Row]:
        kept = tuple(record for record in benchmark.records if _run(record) in shared)
        return {(row.method, row.length): row for row in summarize(replace(benchmark, records=kept))}

    before, after = rows(old), rows(new)
    return tuple(one_line(sentence) for key in after for sentence in _worse(before[key], after[key]))


def _run(record: Record) -> tuple[str, int, str]:
    return record.method, record.length, record.document


def _check_settings(old: Benchmark, new: Benchmark) -> None:
    was, is_now = (json.loads(json.dumps(made.settings)) for made in (old, new))  # a file has no tuples
    differing = [
        f"{name} was {was.get(name, 'not set')} and is {is_now.get(name, 'not set')}"
        for name in sorted((was.keys() | is_now.keys()) - SCOPE)
        if was.get(name) != is_now.get(name)
    ]
    if old.preset != new.preset:
        differing.insert(0, f"preset was {old.preset} and is {new.preset}")
    if old.seed != new.seed:
        differing.append(f"seed was {old.seed} and is {new.seed}")
    if differing:
        raise _incomparable("; ".join(differing), "run the benchmark again with the settings of the earlier one")


def _incomparable(why: str, fix: str) -> UsageError:
    return UsageError("the two benchmarks cannot be compared", why=one_line(why), fix=fix)


def _worse(old: Row, new: Row) -> Iterator[str]:
    where = f"{new.method} at {format_length(new.length)}"
    if new.method != PLAIN:
        yield from _fall(where, "decoding speedup", "×", old.decode_speedup, new.decode_speedup)
        yield from _fall(where, "end-to-end speedup", "×", old.total_speedup, new.total_speedup)
    yield from _fall(where, "accepted length", "", old.accepted, new.accepted)
    differ, differed = new.compared - new.equal, old.compared - old.equal
    if differ and differ / new.compared > differed / max(old.compared, 1):
        before = f"in {differed} of {old.compared}" if differed else "in none"
        yield f"{where}: output differs from plain decoding in {differ} of {new.compared} runs, before {before}"


def _fall(where: str, what: str, unit: str, old: Interval | None, new: Interval | None) -> Iterator[str]:
    if old is None or new is None:
        return
    floor = old.value * (1 - (NOISE_ALONE if old.low is None else NOISE))
    if new.value < (floor if old.low is None else min(floor, old.low)):
        interval = "" if old.low is None or old.high is None else f" ({old.low:.2f}-{old.high:.2f})"
        yield f"{where}: {what} fell from {old.value:.2f}{unit}{interval} to {new.value:.2f}{unit}"
