"""One row a method and length: everything the reports say about it, as numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import mean, median

from specextend_cli.bench import quality, statistics
from specextend_cli.bench.differences import first_difference
from specextend_cli.bench.quality import Quality
from specextend_cli.bench.records import Benchmark, Divergence, Record
from specextend_cli.bench.statistics import Interval, Shares

BASELINE = "plain"
"""The method that every other is compared with."""


@dataclass(frozen=True, slots=True)
class Row:
    """One method at one length of prompt.

    Seconds and tokens a second are medians over runs. Speedups are over plain decoding, medians of the documents'
    own ratios. `accepted` is the mean over documents of tokens a verification step emits, `accepted_counts` how often
    a step emitted how many. `peak_bytes` is the largest of all runs, `repeated` the mean share of repeated 4-grams.
    Of `compared` runs with a plain counterpart, `equal` emitted the same tokens; `first_divergence` is the earliest
    difference among the others, `largest_gap` their largest logit gap. None is "not measured".
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
    shares: Shares | None
    hit: float | None
    peak_bytes: int
    repeated: float
    compared: int
    equal: int
    first_divergence: Divergence | None
    largest_gap: float | None
    quality: Quality | None
    scaled: bool


def summarize(benchmark: Benchmark) -> tuple[Row, ...]:
    """A row for every method and length that was measured: by length, then in the order the methods were asked for."""
    lengths = sorted({record.length for record in benchmark.records})
    order = methods(benchmark)
    by_length = [[record for record in benchmark.records if record.length == length] for length in lengths]
    return tuple(
        _row(benchmark, method, at_length)
        for at_length in by_length
        for method in order
        if any(record.method == method for record in at_length)
    )


def methods(benchmark: Benchmark) -> tuple[str, ...]:
    """The measured methods in the order of the setting `methods`; others follow, the baseline before them."""
    measured = dict.fromkeys(record.method for record in benchmark.records)
    asked = benchmark.settings.get("methods")
    known = [name for name in asked if name in measured] if isinstance(asked, (list, tuple)) else []
    return tuple(dict.fromkeys([*known, *(name for name in measured if name == BASELINE), *measured]))


def _row(benchmark: Benchmark, method: str, at_length: Sequence[Record]) -> Row:
    own = [record for record in at_length if record.method == method]
    speeds = [1 / cost for record in own if (cost := statistics.decode_seconds_per_token(record))]
    hits = [record.hit for record in own if record.hit is not None]
    nodes = [size for record in own for size in record.nodes]
    accepted = statistics.accepted_by_document(own)
    differences = _differences(own, at_length)
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
        decode_speedup=_interval(decode_ratios(at_length, method), benchmark.seed),
        total_speedup=_interval(total_ratios(at_length, method), benchmark.seed),
        accepted=(statistics.bootstrap_interval(accepted, statistics.mean, seed=benchmark.seed) if accepted else None),
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


def decode_ratios(records: Sequence[Record], method: str) -> dict[tuple[str, int], float]:
    """How many times faster than plain decoding a token is, by document and length; prefill apart."""
    return statistics.paired_ratios(records, method, BASELINE, statistics.decode_seconds_per_token)


def total_ratios(records: Sequence[Record], method: str) -> dict[tuple[str, int], float]:
    """How many times sooner a whole output is there, by document and length.

    Outputs may end at different places (half precision, peers), so both are taken at the baseline's number of tokens:
    a method is not fast because it says less.
    """
    tokens: dict[tuple[str, int], int] = {}
    for record in records:
        if record.method == BASELINE:
            tokens.setdefault((record.document, record.length), len(record.tokens))
    found: dict[tuple[str, int], float] = {}
    for (document, length), count in tokens.items():
        pair = [record for record in records if record.document == document and record.length == length]
        found |= statistics.paired_ratios(pair, method, BASELINE, statistics.seconds_for(count))
    return found


def _interval(ratios: dict[tuple[str, int], float], seed: int) -> Interval | None:
    return statistics.bootstrap_interval(tuple(ratios.values()), seed=seed) if ratios else None


def _differences(own: Iterable[Record], at_length: Sequence[Record]) -> list[Divergence | None]:
    """For each run that can be compared: where it leaves plain decoding's first run, None where it does not.

    The tokens are compared again here, so that a run which does not report its divergence is caught all the same.
    """
    plain: dict[str, Record] = {}
    for record in sorted(at_length, key=lambda record: record.repeat):
        if record.method == BASELINE:
            plain.setdefault(record.document, record)
    found: list[Divergence | None] = []
    for record in own:
        if record.divergence is not None:
            found.append(record.divergence)
        elif record.document in plain:
            index = first_difference(record.tokens, plain[record.document].tokens)
            found.append(None if index is None else Divergence(index, None))
    return found


def _quality(own: Iterable[Record], references: dict[str, str]) -> Quality | None:
    scored = [
        score
        for record in own
        if record.document in references and (score := quality.measure(record.text, references[record.document]))
    ]
    if not scored:
        return None
    return Quality(
        mean(score.rouge1 for score in scored),
        mean(score.rouge2 for score in scored),
        mean(score.rouge_l for score in scored),
        mean(score.chrf for score in scored),
    )
