"""Words, terms and languages of texts in any script, found in time in proportion to their length."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specextend_cli.summarize.facts import numbers
from specextend_cli.summarize.words import NAMES, beginning, by_character, count_words, language_of, terms, words
from tests import ROOT
from tests.summarize.test_wording import LANGUAGES, ROWS

MINUTES = 240  # seconds: what grew with the square of the length took longer, for each of several shapes


@pytest.mark.full
def test_texts_of_any_shape_take_linear_time() -> None:
    subprocess.run([sys.executable, "-m", "tests.summarize.linear_work"], cwd=ROOT, check=True, timeout=MINUTES)


def test_a_run_of_hundreds_is_no_number_of_thousands_of_digits() -> None:
    (number,) = numbers("hundred " * 5_000)
    assert len(max(number.readings)) < 30


def test_terms_have_no_accents_however_many_there_are() -> None:
    assert terms("Ré\u0301\u0323sume\u0301 ﬁne Ÿ \u0f73") == terms("resume fine y")


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("", 0),
        ("  \n", 0),
        ("One, two - three.", 4),  # as wc
        ("- a line", 3),
        ("河水干了。", 4),
        ("2024年7月，USB接口。", 7),
        ("「はい。」と言った。", 6),
        ("กรุงเทพมหานคร", 3),
        ("नदी में पानी घटा है।", 5),
        ("제방이 무너졌다.", 2),
    ],
)
def test_words_are_counted(text: str, count: int) -> None:
    assert count_words(text) == count
    assert by_character(text) == ("水" in text or "口" in text or "言" in text)


@given(st.text(st.characters(max_codepoint=0x24F, exclude_categories=["Cs"])))
def test_between_spaces_is_a_word(text: str) -> None:
    assert words(text) == text.split()


@pytest.mark.parametrize(
    ("text", "most", "begun"),
    [
        ("One two three.", 3, "One two three."),
        ("One two three four.", 3, "One two three…"),
        ("A b c d e f g h i, j k l.", 10, "A b c d e f g h i…"),
        ("One, two three four five six.", 5, "One, two three four five…"),
        ("2024年7月，长江中下游地区。", 5, "2024年7月，长…"),
        ("2024年7月，长江中下游地区。", 4, "2024年7月…"),
    ],
)
def test_a_beginning_ends_with_a_word_or_at_a_pause(text: str, most: int, begun: str) -> None:
    assert beginning(text, most) == begun


@given(st.text("ab ,.水\n-", max_size=60), st.integers(1, 20))
def test_a_beginning_has_so_many_words_at_most(text: str, most: int) -> None:
    made = beginning(text, most)
    assert made == text or count_words(made.removesuffix("…")) <= most


@pytest.mark.parametrize("code", LANGUAGES)
def test_languages_are_told_apart(code: str) -> None:
    assert language_of(" ".join(row[2] for row in ROWS if row[:2] == (code, "-"))) == code
    assert code in NAMES


@pytest.mark.parametrize("text", ["", "12 34", "def f(a): return a", "Ōsaka and Kyōto", "It is the port of 临江."])
def test_what_says_nothing_is_taken_for_english(text: str) -> None:
    assert language_of(text) == "en"
