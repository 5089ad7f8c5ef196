"""What reads a document's text takes time in proportion to its length, whatever is in it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from specextend_cli.summarize.facts import numbers
from specextend_cli.summarize.sentences import split
from specextend_cli.summarize.words import terms
from tests import ROOT

MINUTES = 240  # seconds: what grew with the square of the length took longer, for each of several shapes


@pytest.mark.full
def test_texts_of_any_shape() -> None:
    subprocess.run([sys.executable, "-m", "tests.summarize.linear_work"], cwd=ROOT, check=True, timeout=MINUTES)


def test_abbreviations_and_numbers_of_items_end_no_sentence() -> None:
    text = "1. Mr. Hill of St. Mary left.  2. See Fig. 3. It rose. \n\nAt 5 p.m. J. Roe came. At 6 p.m. He left."
    assert split(text) == [
        "1. Mr. Hill of St. Mary left.  ",
        "2. See Fig. 3. ",
        "It rose. \n\n",
        "At 5 p.m. J. Roe came. ",
        "At 6 p.m. ",
        "He left.",
    ]


def test_a_run_of_hundreds_is_no_number_of_thousands_of_digits() -> None:
    (number,) = numbers("hundred " * 5_000)
    assert len(max(number.readings)) < 30


def test_terms_have_no_accents_however_many_there_are() -> None:
    assert terms("Ré\u0301\u0323sume\u0301 ﬁne Ÿ \u0f73") == terms("resume fine y")
