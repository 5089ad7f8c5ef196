"""Statistics of runs: intervals, paired ratios, accepted lengths, shares of a step, repetition.

Speedups are medians over documents of paired ratios. Documents are resampled, because repeats and steps of one document
are not independent samples.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from statistics import fmean, median
from typing import Any, TypeAlias

import numpy as np

from specextend_cli.bench.records import Record

Quantity: TypeAlias = Callable[[Record], float | None]  # a figure of one run, or None if the run does not have it

RESAMPLES = 9999


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate from `n` documents. One document has no interval: `low` and `high` are None."""

    value: float
    low: float | None
    high: float | None
    n: int


def bootstrap_interval(
    values: Sequence[float],
    statistic: Callable[..., Any] = np.median,
    confidence: float = 0.95,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Interval:
    """The statistic, a function of numpy, and its percentile bootstrap interval.

    The percentile method, not BCa: the correction needs a jackknife, which for a median of few values is zero or
    undefined. Raises ValueError without values.
    """
    sample = np.asarray(values, dtype=np.float64)
    if not sample.size:
        raise ValueError("no values to resample")
    value = float(statistic(sample))
    if sample.size == 1:
        return Interval(value, None, None, 1)
    chosen = np.random.default_rng(abs(seed)).integers(0, sample.size, (resamples, sample.size))
    tail = (1 - confidence) / 2
    low, high = np.quantile(statistic(sample[chosen], axis=-1), (tail, 1 - tail))
    return Interval(value, float(low), float(high), sample.size)


def format_interval(interval: Interval | None, unit: str = "") -> str | None:
    """ "1.92× (1.80-2.05)"; without brackets for a single document, or if nothing varies."""
    if interval is None:
        return None
    value = f"{interval.value:.2f}{unit}"
    return value if interval.low == interval.high else f"{value} ({interval.low:.2f}-{interval.high:.2f})"


def decode_seconds_per_token(record: Record) -> float | None:
    """Seconds a token after the first one, which prefill gives. Per token, as outputs may end at different places."""
    return record.decode_seconds / (len(record.tokens) - 1) if len(record.tokens) > 1 else None


def paired_ratios(records: Sequence[Record], method: str, baseline: str, quantity: Quantity) -> dict[str, float]:
    """How many times less of `quantity` the method needs than the baseline, by document: above 1 is better.

    The records are of one length. First each one's median over repeats, then the ratio. Documents that one of the two
    lacks, or where either is zero, are left out.
    """
    ours, theirs = (
        {
            document: median(known)
            for document, runs in by_document(record for record in records if record.method == name).items()
            if (known := [figure for record in runs if (figure := quantity(record)) is not None])
        }
        for name in (method, baseline)
    )
    return {name: theirs[name] / ours[name] for name in ours if ours[name] > 0 and theirs.get(name, 0.0) > 0}


def by_document(records: Iterable[Record]) -> dict[str, list[Record]]:
    """The runs of each document, in the order of the first ones."""
    found: dict[str, list[Record]] = {}
    for record in records:
        found.setdefault(record.document, []).append(record)
    return found


def accepted_by_document(records: Iterable[Record]) -> tuple[float, ...]:
    """Each document's mean tokens of a verification step over its repeats; documents without steps are left out."""
    runs = by_document(record for record in records if record.accepted)
    return tuple(fmean(size for record in of for size in record.accepted) for of in runs.values())


def accepted_counts(records: Iterable[Record]) -> Counter[int]:
    """How many verification steps emitted how many tokens."""
    return Counter(size for record in records for size in record.accepted)


def quantile(counts: Counter[int], share: float) -> int:
    """The smallest value that at least `share` of all counted do not exceed; something must have been counted."""
    return int(np.quantile(list(counts.elements()), share, method="inverted_cdf"))


def shares(records: Sequence[Record]) -> dict[str, float] | None:
    """Shares of the records' decoding time, one in all; None if no part was measured. The rest is the host's."""
    parts = {
        part: sum(getattr(record, f"{part}_seconds") for record in records) for part in ("draft", "verify", "retrieve")
    }
    known = sum(parts.values())
    if not known:
        return None
    whole = max(sum(record.decode_seconds for record in records), known)
    return {part: seconds / whole for part, seconds in (parts | {"host": whole - known}).items()}


def repeated_ngrams(tokens: Sequence[Hashable], n: int = 4) -> float:
    """The share of n-grams that occurred earlier in the same output, 0 to 1."""
    grams = [tuple(tokens[start : start + n]) for start in range(len(tokens) - n + 1)]
    return 1 - len(set(grams)) / len(grams) if grams else 0.0


def first_difference(one: Sequence[int], other: Sequence[int]) -> int | None:
    """The index of the first token that differs, a missing one included; None if all are equal."""
    pairs = enumerate(zip_longest(one, other))
    return next((index for index, (left, right) in pairs if left != right), None)
