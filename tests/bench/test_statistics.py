"""Against figures worked out by hand, and against scipy's bootstrap."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from specextend_cli.bench import statistics
from specextend_cli.bench.rows import summarize
from specextend_cli.bench.statistics import Interval, first_difference
from tests.bench.made_benchmark import benchmark, record


def test_an_interval_by_hand() -> None:
    """Two values resample to (1, 1), (1, 3), (3, 1), (3, 3): means 1, 2, 2, 3, of which a quarter each are the ends."""
    interval = statistics.bootstrap_interval((1.0, 3.0), np.mean, confidence=0.6, resamples=20_000)
    assert (interval.value, interval.low, interval.high, interval.n) == (2.0, 1.0, 3.0, 2)
    narrow = statistics.bootstrap_interval((1.0, 3.0), np.mean, confidence=0.4, resamples=20_000)
    assert (narrow.low, narrow.high) == (2.0, 2.0)


@pytest.mark.parametrize("statistic", [np.median, np.mean], ids=["median", "mean"])
@pytest.mark.parametrize("n", [3, 8, 40])
def test_intervals_are_scipys(statistic, n: int) -> None:
    values = np.random.default_rng(n).lognormal(0.5, 0.3, n)
    found = statistics.bootstrap_interval(tuple(values), statistic, seed=11)
    reference = scipy.stats.bootstrap(
        (values,), statistic, n_resamples=statistics.RESAMPLES, method="percentile", rng=np.random.default_rng(11)
    ).confidence_interval
    assert found.low == pytest.approx(reference.low, rel=1e-12)
    assert found.high == pytest.approx(reference.high, rel=1e-12)


def test_intervals_cover_as_often_as_they_say() -> None:
    """Of 300 samples from one distribution, near 95% of the intervals hold its mean (fewer, as n is small)."""
    draw = np.random.default_rng(5)
    held = 0
    for seed in range(300):
        found = statistics.bootstrap_interval(tuple(draw.normal(2.0, 0.5, 30)), np.mean, resamples=999, seed=seed)
        held += found.low <= 2.0 <= found.high  # type: ignore[operator]
    assert 0.90 < held / 300 < 0.98


@given(st.lists(st.floats(0.1, 10), min_size=2, max_size=12), st.integers(0, 9))
def test_an_interval_holds_its_estimate_and_stays_within_the_values(values: list[float], seed: int) -> None:
    found = statistics.bootstrap_interval(values, resamples=199, seed=seed)
    assert found.low is not None
    assert found.high is not None
    assert min(values) <= found.low <= found.high <= max(values)
    assert found == statistics.bootstrap_interval(values, resamples=199, seed=seed)


def test_a_negative_seed_is_taken_by_its_size() -> None:
    assert statistics.bootstrap_interval((1.0, 2.0), seed=-3) == statistics.bootstrap_interval((1.0, 2.0), seed=3)


def test_one_document_has_no_interval_and_none_has_nothing() -> None:
    assert statistics.bootstrap_interval((1.5,)) == Interval(1.5, None, None, 1)
    with pytest.raises(ValueError, match="no values"):
        statistics.bootstrap_interval(())


def test_ratios_are_paired_by_document_after_the_median_over_repeats() -> None:
    records = [
        *(record("plain", "a", repeat=r, decode_seconds=9.0 * s) for r, s in enumerate((2.0, 1.0, 8.0))),  # median 2
        *(record("fast", "a", repeat=r, decode_seconds=9.0 * s) for r, s in enumerate((0.5, 0.4, 0.7))),  # median 0.5
        record("plain", "b", decode_seconds=9.0),
        record("fast", "b", decode_seconds=18.0),
        record("fast", "alone"),
    ]
    ratios = statistics.paired_ratios(records, "fast", "plain", statistics.decode_seconds_per_token)
    assert ratios == {"a": pytest.approx(4.0), "b": pytest.approx(0.5)}


def test_a_shorter_output_is_not_a_faster_one() -> None:
    """Half the tokens in half the time: the same speed, and end to end the same seconds for as many tokens."""
    half = record("short", tokens=(1, 2, 3, 4), decode_seconds=3.0)
    assert statistics.decode_seconds_per_token(half) == statistics.decode_seconds_per_token(record())
    row = summarize(benchmark(record(), half))[1]
    assert row.decode_speedup == row.total_speedup == Interval(1.0, None, None, 1)


@pytest.mark.parametrize("tokens", [(), (7,)])
def test_an_output_of_prefills_token_alone_has_no_decoding_speed(tokens: tuple[int, ...]) -> None:
    one = record("fast", tokens=tokens, decode_seconds=0.0)
    assert statistics.decode_seconds_per_token(one) is None
    assert not statistics.paired_ratios([one, record()], "fast", "plain", statistics.decode_seconds_per_token)


def test_accepted_lengths() -> None:
    runs = [
        record(document="a", accepted=(3, 1)),
        record(document="a", accepted=(2, 2), repeat=1),
        record(document="b", accepted=(5,)),
        record(document="peer", accepted=()),
    ]
    assert statistics.accepted_by_document(runs) == (2.0, 5.0)
    assert statistics.accepted_by_document(runs[3:]) == ()
    assert statistics.accepted_counts(runs) == Counter({2: 2, 3: 1, 1: 1, 5: 1})


@given(st.lists(st.integers(1, 12), min_size=1), st.floats(0.01, 1.0))
def test_quantiles_are_numpys(values: list[int], share: float) -> None:
    reference = np.quantile(values, share, method="inverted_cdf")
    assert statistics.quantile(Counter(values), share) == reference


def test_shares_add_up_and_the_rest_is_the_hosts() -> None:
    runs = [
        record(decode_seconds=6.0, draft_seconds=1.0, verify_seconds=3.0, retrieve_seconds=0.5),
        record(decode_seconds=4.0, draft_seconds=1.0, verify_seconds=2.0),
    ]
    assert statistics.shares(runs) == pytest.approx({"draft": 0.2, "verify": 0.5, "retrieve": 0.05, "host": 0.25})
    assert statistics.shares([record()]) is None
    overlapping = statistics.shares([record(decode_seconds=1.0, verify_seconds=1.01)])
    assert overlapping == {"draft": 0.0, "verify": 1.0, "retrieve": 0.0, "host": 0.0}


@given(st.floats(0, 5), st.floats(0.1, 5), st.floats(0, 5), st.floats(0, 20))
def test_shares_of_a_step_are_positive_and_add_up_to_one(
    draft: float, verify: float, retrieve: float, decode: float
) -> None:
    found = statistics.shares(
        [record(decode_seconds=decode, draft_seconds=draft, verify_seconds=verify, retrieve_seconds=retrieve)]
    )
    assert found is not None
    assert math.isclose(sum(found.values()), 1.0)
    assert min(found.values()) >= 0


@pytest.mark.parametrize(
    ("tokens", "share"),
    [
        ((), 0.0),
        ((1, 2, 3), 0.0),
        (tuple(range(20)), 0.0),
        ((1,) * 7, 3 / 4),  # four 4-grams, all the same
        ((1, 2, 3, 4) * 2, 1 / 5),  # 1234 2341 3412 4123 1234
    ],
)
def test_repeated_ngrams_are_a_share_of_all(tokens: tuple[int, ...], share: float) -> None:
    assert statistics.repeated_ngrams(tokens) == pytest.approx(share)


def test_the_first_token_that_differs_is_found() -> None:
    assert first_difference((1, 2, 3), (1, 2, 3)) is None
    assert first_difference((1, 2, 3), (1, 9, 3)) == 1
    assert first_difference((1, 2), (1, 2, 3)) == 2
