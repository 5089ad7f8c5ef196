"""Statistics of runs: intervals, paired ratios, a rank-sum test, accepted lengths, shares of a step, repetition.

Speedups are medians over documents of paired ratios. Documents are resampled, because repeats and steps of one document
are not independent samples.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
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


def decode_seconds_per_token(record: Record) -> float | None:
    """Seconds a token after the first one, which prefill gives. Per token, as outputs may end at different places."""
    return record.decode_seconds / (len(record.tokens) - 1) if len(record.tokens) > 1 else None


def seconds_for(tokens: int) -> Quantity:
    """End-to-end seconds for an output of `tokens` tokens at the run's own decoding speed."""

    def seconds(record: Record) -> float | None:
        per_token = decode_seconds_per_token(record)
        return None if per_token is None else record.prefill_seconds + per_token * (tokens - 1)

    return seconds


def paired_ratios(
    records: Sequence[Record], method: str, baseline: str, quantity: Quantity
) -> dict[tuple[str, int], float]:
    """How many times less of `quantity` the method needs than the baseline: above 1 is better.

    By document and length: first each one's median over repeats, then the ratio. Documents that one of the two lacks,
    or where either is zero, are left out.
    """
    ours, theirs = (
        {key: median(figures) for key, figures in _figures(records, {name}, quantity).items()}
        for name in (method, baseline)
    )
    return {key: theirs[key] / ours[key] for key in ours if ours[key] > 0 and theirs.get(key, 0.0) > 0}


def chance(
    records: Sequence[Record], method: str, baselines: Collection[str], quantity: Quantity, seed: int = 0
) -> float:
    """The p-value of the method needing less than the baselines, which are one method run several times.

    Van Elteren's test: Wilcoxon's rank-sum test stratified by document, one-sided, by random permutation of each
    document's runs. 1 if either has no run.
    """
    ours, theirs = _figures(records, {method}, quantity), _figures(records, baselines, quantity)
    rng = np.random.default_rng(abs(seed))
    found, dealt = 0.0, np.zeros(RESAMPLES)
    for key in sorted(ours.keys() & theirs.keys()):
        runs = np.array([*ours[key], *theirs[key]], dtype=np.float64)
        ranks = (np.searchsorted(np.sort(runs), runs, "left") + np.searchsorted(np.sort(runs), runs, "right")) / 2
        n = len(ours[key])
        found += ranks[:n].mean()
        dealt += rng.permuted(np.tile(ranks, (RESAMPLES, 1)), axis=1)[:, :n].mean(axis=-1)
    return float(1 + np.count_nonzero(dealt <= found + 1e-9)) / (1 + RESAMPLES)


def _figures(
    records: Iterable[Record], methods: Collection[str], quantity: Quantity
) -> dict[tuple[str, int], list[float]]:
    """Those of the methods' runs that have one, by document and length."""
    runs = by_document(record for record in records if record.method in methods)
    figures = {key: [figure for record in of if (figure := quantity(record)) is not None] for key, of in runs.items()}
    return {key: known for key, known in figures.items() if known}


def by_document(records: Iterable[Record]) -> dict[tuple[str, int], list[Record]]:
    """The runs of each document and length, in the order of the first ones."""
    found: dict[tuple[str, int], list[Record]] = {}
    for record in records:
        found.setdefault((record.document, record.length), []).append(record)
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
