"""Against figures worked out by hand, and against scipy's bootstrap."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from specextend_cli.bench import statistics
from specextend_cli.bench.formats import Interval
from specextend_cli.bench.statistics import first_difference
from tests.bench.made_benchmark import record


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


@given(st.lists(st.floats(0.1, 10), min_size=2, max_size=12), st.integers(0, 9))
def test_an_interval_holds_its_estimate_and_stays_within_the_values(values: list[float], seed: int) -> None:
    found = statistics.bootstrap_interval(values, seed=seed)
    assert found is not None
    assert found.low is not None
    assert found.high is not None
    assert min(values) <= found.low <= found.high <= max(values)
    assert found == statistics.bootstrap_interval(values, seed=seed)


def test_one_document_has_no_interval_and_none_has_nothing() -> None:
    assert statistics.bootstrap_interval((1.5,)) == Interval(1.5, None, None)
    assert statistics.bootstrap_interval(()) is None


def test_ratios_are_paired_by_document_after_the_median_over_repeats() -> None:
    records = [
        *(record("plain", "a", repeat=r, decode_seconds=9.0 * s) for r, s in enumerate((2.0, 1.0, 8.0))),  # median 2
        *(record("fast", "a", repeat=r, decode_seconds=9.0 * s) for r, s in enumerate((0.5, 0.4, 0.7))),  # median 0.5
        record("plain", "b", decode_seconds=9.0),
        record("fast", "b", decode_seconds=18.0),
        record("fast", "alone"),
    ]
    plain, fast = ([one for one in records if one.method == method] for method in ("plain", "fast"))
    ratios = statistics.paired_ratios(fast, plain, statistics.decode_seconds_per_token)
    assert ratios == {"a": pytest.approx(4.0), "b": pytest.approx(0.5)}


@pytest.mark.parametrize("tokens", [(), (7,)])
def test_an_output_of_prefills_token_alone_has_no_decoding_speed(tokens: tuple[int, ...]) -> None:
    one = record("fast", tokens=tokens, decode_seconds=0.0)
    assert statistics.decode_seconds_per_token(one) is None
    assert not statistics.paired_ratios([one], [record()], statistics.decode_seconds_per_token)


def test_accepted_lengths() -> None:
    runs = [
        record(document="a", accepted=(3, 1)),
        record(document="a", accepted=(2, 2), repeat=1),
        record(document="b", accepted=(5,)),
        record(document="peer", accepted=()),
    ]
    assert statistics.accepted_by_document(runs) == (2.0, 5.0)
    assert statistics.accepted_by_document(runs[3:]) == ()


def test_the_first_token_that_differs_is_found() -> None:
    assert first_difference((1, 2, 3), (1, 2, 3)) is None
    assert first_difference((1, 2, 3), (1, 9, 3)) == 1
    assert first_difference((1, 2), (1, 2, 3)) == 2
