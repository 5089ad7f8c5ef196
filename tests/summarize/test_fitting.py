"""Sizes that add up to a number, the first ones as far as possible."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from specextend_cli.summarize.fitting import fitted, leading

sizes = st.lists(st.integers(1, 60), max_size=60)


def test_in_order_where_that_fits():
    assert fitted([30, 25, 28, 20, 27], 103) == [0, 1, 2, 3]
    assert fitted([30, 25, 28, 40, 27], 110) == [0, 1, 2, 4]
    assert fitted([50] * 40, 1000) == list(range(20))


def test_a_sum_is_met_by_skipping():
    assert fitted([35, 30, 20, 7], 20) == [2]
    assert fitted([35, 11, 40, 9], 20) == [1, 3]


def test_nothing_where_no_sum_is_near():
    assert fitted([], 20) == []
    assert fitted([40, 41], 20) == []
    assert fitted([5, 5], 20) == []


@given(sizes, st.integers(1, 400))
def test_what_is_taken_fits(sizes, wanted):
    numbers = fitted(sizes, wanted)
    assert numbers == sorted(set(numbers))
    assert not numbers or abs(sum(sizes[number] for number in numbers) - wanted) <= 0.14 * wanted


@given(st.lists(st.integers(6, 40), min_size=40, max_size=90), st.integers(60, 400))
def test_sentences_of_usual_lengths_meet_any_number(sizes, wanted):
    assert fitted(sizes, wanted)


@given(sizes, st.integers(1, 400), st.none() | st.integers(1, 3))
def test_the_first_ones_are_as_near_as_can_be(sizes, wanted, most):
    count = leading(sizes, wanted, most)
    assert (count > 0) == bool(sizes)
    assert count <= (most or len(sizes))
    off = abs(sum(sizes[:count]) - wanted)
    assert all(off <= abs(sum(sizes[:other]) - wanted) for other in range(1, len(sizes[:most]) + 1))


def test_many_sizes_cost_no_more_than_their_number():
    """A hundred thousand lines, and a sum that needs most of them."""
    assert sum(fitted([1] * 100_000, 90_000)) > 0
