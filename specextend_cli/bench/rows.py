"""One row a method and prompt length: all figures of the reports, as numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import astuple, dataclass, fields
from itertools import groupby
from statistics import mean, median
from typing import Any

import numpy as np

from specextend_cli.bench import quality, statistics
from specextend_cli.bench.quality import Quality
from specextend_cli.bench.records import PLAIN, Benchmark, Divergence, Record
from specextend_cli.bench.statistics import Interval, Quantity, first_difference
from specextend_cli.bench.tables import Cell


@dataclass(frozen=True, slots=True)
class Row:
    """One method at one prompt length. None is "not measured".

    Seconds and tokens per second: medians over runs. Speedups: over plain decoding, medians of the documents' own
    ratios. `accepted`: mean over documents of tokens per verification step; `accepted_counts`: steps by tokens.
    `peak_bytes`: the largest of all runs. `repeated`: mean share of repeated 4-grams. Of `compared` runs with a plain
    counterpart, `equal` emitted the same tokens; `first_divergence` and `largest_gap` are those of the others.
    """

    method: str
    length: int
    documents: int
    runs: int
    prefill_seconds: float
    decode_seconds: float
    total_seconds: float
    tokens_per_second: float | None
    decode_speedup: Interval | None
    total_speedup: Interval | None
    accepted: Interval | None
    accepted_counts: Counter[int]
    nodes: float | None
    shares: dict[str, float] | None
    hit: float | None
    peak_bytes: int
    repeated: float
    compared: int
    equal: int
    first_divergence: Divergence | None
    largest_gap: float | None
    quality: Quality | None
    scaled: bool

    def flat(self) -> dict[str, Cell]:
        """One number a key, for programs; keys are stable."""
        plain = [field.name for field in fields(self) if field.name not in _NESTED]
        found: dict[str, Cell] = {name: getattr(self, name) for name in plain}
        for name in ("decode_speedup", "total_speedup", "accepted"):
            value, low, high = (getattr(getattr(self, name), part, None) for part in ("value", "low", "high"))
            found |= {name: value, f"{name}_low": low, f"{name}_high": high}
        counts, shares = self.accepted_counts, self.shares or {}
        found |= {f"accepted_p{n}": statistics.quantile(counts, n / 100) if counts else None for n in (10, 90)}
        found |= {f"{part}_share": shares.get(part) for part in PARTS}
        found["first_divergence"] = getattr(self.first_divergence, "index", None)
        found["first_divergence_gap"] = getattr(self.first_divergence, "gap", None)
        return found | {field.name: getattr(self.quality, field.name, None) for field in fields(Quality)}


PARTS = ("draft", "verify", "retrieve", "host")  # of decoding time
_NESTED = {"decode_speedup", "total_speedup", "accepted", "accepted_counts", "shares", "first_divergence", "quality"}


def summarize(benchmark: Benchmark) -> tuple[Row, ...]:
    """A row for every method and length that was measured: by length, then in the order of `methods`."""
    lengths = groupby(sorted(benchmark.records, key=lambda record: record.length), key=lambda record: record.length)
    return tuple(
        _row(benchmark, method, at_length)
        for at_length in (list(records) for _, records in lengths)
        for method in methods(benchmark)
        if any(record.method == method for record in at_length)
    )


def methods(benchmark: Benchmark) -> tuple[str, ...]:
    """The measured methods in the order of the setting `methods`; others follow, plain decoding first."""
    measured = dict.fromkeys(record.method for record in benchmark.records)
    asked = benchmark.settings.get("methods")
    known = [name for name in asked if name in measured] if isinstance(asked, (list, tuple)) else []
    return tuple(dict.fromkeys([*known, *(name for name in measured if name == PLAIN), *measured]))


def _row(benchmark: Benchmark, method: str, at_length: Sequence[Record]) -> Row:
    def interval(values: Collection[float], statistic: Callable[..., Any] = np.median) -> Interval | None:
        return statistics.bootstrap_interval(tuple(values), statistic, seed=benchmark.seed) if values else None

    def speedups(quantity: Quantity) -> Collection[float]:
        return statistics.paired_ratios(at_length, method, PLAIN, quantity).values()

    def seconds(record: Record) -> float | None:
        """End to end, for as many tokens as plain decoding wrote: outputs may differ in length."""
        per_token = statistics.decode_seconds_per_token(record)
        if per_token is None or record.document not in plain:
            return None
        return record.prefill_seconds + per_token * (len(plain[record.document].tokens) - 1)

    by_repeat = sorted(at_length, key=lambda record: -record.repeat)
    plain = {record.document: record for record in by_repeat if record.method == PLAIN}  # the first run
    own = [record for record in at_length if record.method == method]
    speeds = [1 / cost for record in own if (cost := statistics.decode_seconds_per_token(record))]
    hits = [record.hit for record in own if record.hit is not None]
    nodes = [size for record in own for size in record.nodes]
    differences = [
        record.divergence or _difference(record, plain[record.document])
        for record in own
        if record.divergence or record.document in plain
    ]
    diverged = [difference for difference in differences if difference is not None]
    gaps = [difference.gap for difference in diverged if difference.gap is not None]
    return Row(
        method=method,
        length=own[0].length,
        documents=len({record.document for record in own}),
        runs=len(own),
        prefill_seconds=median(record.prefill_seconds for record in own),
        decode_seconds=median(record.decode_seconds for record in own),
        total_seconds=median(record.prefill_seconds + record.decode_seconds for record in own),
        tokens_per_second=median(speeds) if speeds else None,
        decode_speedup=interval(speedups(statistics.decode_seconds_per_token)),
        total_speedup=interval(speedups(seconds)),
        accepted=interval(statistics.accepted_by_document(own), np.mean),
        accepted_counts=statistics.accepted_counts(own),
        nodes=float(mean(nodes)) if nodes else None,
        shares=statistics.shares(own),
        hit=mean(hits) if hits else None,
        peak_bytes=max(record.peak_bytes for record in own),
        repeated=mean(statistics.repeated_ngrams(record.tokens) for record in own),
        compared=len(differences),
        equal=len(differences) - len(diverged),
        first_divergence=min(diverged, key=lambda difference: difference.index, default=None),
        largest_gap=max(gaps, default=None),
        quality=_quality(own, benchmark.references),
        scaled=any(record.scaled for record in own),
    )


def _difference(record: Record, plain: Record) -> Divergence | None:
    """Where the tokens of a run, which may not report it, differ from plain decoding's."""
    index = first_difference(record.tokens, plain.tokens)
    return None if index is None else Divergence(index, None)


def _quality(own: Iterable[Record], references: dict[str, str]) -> Quality | None:
    known = [(record.text, references[record.document]) for record in own if record.document in references]
    scored = [astuple(score) for text, reference in known if (score := quality.measure(text, reference))]
    return Quality(*map(mean, zip(*scored, strict=True))) if scored else None
