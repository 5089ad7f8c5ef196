"""Word pairs that recur: which count, how much, and once only."""

from __future__ import annotations

from math import log

import numpy as np
import pytest

from specextend_cli.summarize.ranking.recurring import RecurringPairs
from tests.summarize.test_selection import chosen

LINES = [
    "The harbour tax was raised by the council in the spring.",
    "The council sold the station to the town of Falcaster.",
    "All of the boats in the harbour pay the harbour tax.",
    "It was the harbour tax that paid for the lighthouse at the end of the pier.",
    "A storm took the roof of the old lighthouse.",
]
SIZES = np.array([len(line.split()) for line in LINES])


def test_a_pair_counts_by_the_lines_that_have_it() -> None:
    """ "Harbour tax" is in three lines; "old lighthouse" is in one; "of the" says nothing."""
    expected = [log(3) / 11, 0, log(3) / 11, log(3) / 16, 0]
    assert RecurringPairs(LINES, SIZES).worth().tolist() == pytest.approx(expected)


def test_a_pair_counts_once_in_a_summary() -> None:
    assert RecurringPairs(LINES, SIZES).worth([3]).tolist() == [0] * 5
    assert RecurringPairs(LINES, SIZES).worth([1, 4]).tolist() == RecurringPairs(LINES, SIZES).worth().tolist()


def test_equal_lines_are_one() -> None:
    assert not RecurringPairs([LINES[0]] * 9 + LINES[1:2], np.full(10, 11)).worth().any()


@pytest.mark.parametrize(
    "line", ["Die Steuer für den Hafen wurde vom Rat erhöht.", "港の税は春に議会によって引き上げられた。", ""]
)
def test_other_languages_have_none(line: str) -> None:
    assert not RecurringPairs([line, f"{line} {line}", line + "."], np.array([9, 18, 9])).worth().any()


def test_of_equal_scores_the_sentence_that_says_what_recurs_is_taken() -> None:
    lines = [f"The harbour tax of {1800 + number} was paid for by the boats." for number in range(3)]
    other = "A storm in the night took the roof of the lighthouse."
    assert chosen(" ".join([other, *lines]), [1.0, 1.0, 0.9, 0.9], 11) == [lines[0]]
    assert chosen(" ".join([other, *lines]), [1.3, 1.0, 0.9, 0.9], 22) == [other, lines[0]]
