"""Statistics of runs: intervals, paired ratios, accepted lengths; a row a method.

Speedups are medians over documents of paired ratios. Documents are resampled, because repeats and steps of one document
are not independent samples.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import zip_longest
from statistics import fmean, median
from typing import Any, TypeAlias

import numpy as np

from specextend_cli.bench.formats import Interval
from specextend_cli.bench.results import PLAIN, Record

Quantity: TypeAlias = Callable[[Record], float | None]  # a figure of one run, or None if the run does not have it

RESAMPLES = 9999


def bootstrap_interval(
    values: Collection[float], statistic: Callable[..., Any] = np.median, seed: int = 0
) -> Interval | None:
    """The statistic, a function of numpy, and its 95% percentile bootstrap interval; None without values.

    The percentile method, not BCa: the correction needs a jackknife, which for a median of few values is zero or
    undefined.
    """
    sample = np.fromiter(values, np.float64)
    if not sample.size:
        return None
    value = float(statistic(sample))
    if sample.size == 1:
        return Interval(value, None, None)
    chosen = np.random.default_rng(seed).integers(0, sample.size, (RESAMPLES, sample.size))
    low, high = np.quantile(statistic(sample[chosen], axis=-1), (0.025, 0.975))
    return Interval(value, float(low), float(high))


def decode_seconds_per_token(record: Record) -> float | None:
    """Seconds a token after the first one, which prefill gives. Per token, as outputs may end at different places."""
    return record.decode_seconds / (len(record.tokens) - 1) if len(record.tokens) > 1 else None


def paired_ratios(own: Sequence[Record], others: Sequence[Record], quantity: Quantity) -> dict[str, float]:
    """How many times less of `quantity` a method needs than another, by document: above 1 is better.

    The records are of one length. First each one's median over repeats, then the ratio. Documents that one of the two
    lacks, or where either is zero, are left out.
    """
    ours, theirs = (
        {
            document: median(known)
            for document, runs in by_document(records).items()
            if (known := [figure for record in runs if (figure := quantity(record)) is not None])
        }
        for records in (own, others)
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


def first_difference(one: Sequence[int], other: Sequence[int]) -> int | None:
    """The index of the first token that differs, a missing one included; None if all are equal."""
    pairs = enumerate(zip_longest(one, other))
    return next((index for index, (left, right) in pairs if left != right), None)


@dataclass(frozen=True, slots=True)
class Row:
    """One method at one prompt length. None is "not measured".

    Seconds and tokens per second: medians over runs. Speedups: over plain decoding, medians of the documents' own
    ratios. `accepted`: mean over documents of tokens per verification step. `hit`: percent of the target's attention.
    `equal` runs emitted plain decoding's tokens; `difference` is the number of
    the first token, from 1 on, at which another run differs, and `gap` the largest difference of plain decoding's two
    best logits at such a token.
    """

    length: int
    method: str
    scaled: bool
    documents: int
    runs: int
    prefill_seconds: float
    decode_seconds: float
    total_seconds: float
    tokens_per_second: float | None
    decode_speedup: Interval | None
    total_speedup: Interval | None
    accepted: Interval | None
    nodes: float | None
    hit: float | None
    equal: int
    difference: int | None
    gap: float | None


def _row(own: Sequence[Record], plain: Sequence[Record], seed: int) -> Row:
    def speedup(quantity: Quantity) -> Interval | None:
        return bootstrap_interval(paired_ratios(own, plain, quantity).values(), seed=seed)

    def seconds(record: Record) -> float | None:
        """End to end, for as many tokens as plain decoding wrote: outputs may differ in length."""
        per_token = decode_seconds_per_token(record)
        if per_token is None or record.document not in written:
            return None
        return record.prefill_seconds + per_token * (written[record.document] - 1)

    written = {record.document: len(record.tokens) for record in plain if record.repeat == 0}
    speeds = [1 / cost for record in own if (cost := decode_seconds_per_token(record))]
    hits = [record.hit for record in own if record.hit is not None]
    nodes = [size for record in own for size in record.nodes]
    diverged = [record.divergence for record in own if record.divergence]
    return Row(
        length=own[0].length,
        method=own[0].method,
        scaled=any(record.scaled for record in own),
        documents=len({record.document for record in own}),
        runs=len(own),
        prefill_seconds=median(record.prefill_seconds for record in own),
        decode_seconds=median(record.decode_seconds for record in own),
        total_seconds=median(record.prefill_seconds + record.decode_seconds for record in own),
        tokens_per_second=median(speeds) if speeds else None,
        decode_speedup=speedup(decode_seconds_per_token),
        total_speedup=speedup(seconds),
        accepted=bootstrap_interval(accepted_by_document(own), np.mean, seed),
        nodes=fmean(nodes) if nodes else None,
        hit=100 * fmean(hits) if hits else None,
        equal=len(own) - len(diverged),
        difference=min((found.index + 1 for found in diverged), default=None),
        gap=max((found.gap for found in diverged if found.gap is not None), default=None),
    )


@dataclass(frozen=True)
class Measurements:
    """Runs, and figures of them; `seed` is that of intervals."""

    records: tuple[Record, ...]
    seed: int = 0

    def _of(self, length: int, method: str) -> list[Record]:
        return [record for record in self.records if (record.length, record.method) == (length, method)]

    @cached_property
    def rows(self) -> tuple[Row, ...]:
        """A row for every length and method, in the order of the records."""
        names = dict.fromkeys((record.length, record.method) for record in self.records)
        return tuple(_row(self._of(length, name), self._of(length, PLAIN), self.seed) for length, name in names)

    def ratio(self, row: Row, other: str, quantity: Quantity) -> Interval | None:
        """How many times less of `quantity` a method needs than another: the median of documents' own ratios."""
        ratios = paired_ratios(self._of(row.length, row.method), self._of(row.length, other), quantity)
        return bootstrap_interval(ratios.values(), seed=self.seed)
