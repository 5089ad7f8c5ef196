"""What counts as a word, in any script."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specextend_cli.summarize.answers import flaw
from specextend_cli.summarize.words import beginning, by_character, count_words, words


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
def test_words_are_counted(text, count):
    assert count_words(text) == count


@given(st.text(st.characters(max_codepoint=0x24F, exclude_categories=["Cs"])))
def test_between_spaces_is_a_word(text):
    assert words(text) == text.split()


@pytest.mark.parametrize(
    ("text", "most", "begun"),
    [
        ("One two three.", 3, "One two three."),
        ("One two three four.", 3, "One two three…"),
        (
            "One two three four five six seven eight nine, ten eleven twelve.",
            10,
            "One two three four five six seven eight nine…",
        ),
        ("One, two three four five six.", 5, "One, two three four five…"),
        ("2024年7月，长江中下游地区。", 5, "2024年7月，长…"),
        ("2024年7月，长江中下游地区。", 4, "2024年7月…"),
    ],
)
def test_a_beginning_ends_with_a_word_or_at_a_pause(text, most, begun):
    assert beginning(text, most) == begun


@given(st.text("ab ,.水\n-", max_size=60), st.integers(1, 20))
def test_a_beginning_has_so_many_words_at_most(text, most):
    made = beginning(text, most)
    assert made == text or count_words(made.removesuffix("…")) <= most


def test_scripts_by_their_letters():
    assert by_character("USB接口很多。")
    assert not by_character("The river 长江 is long.")
    assert not by_character("กรุงเทพมหานคร")
    assert not by_character("2024")


def test_an_answer_without_spaces_is_an_answer():
    assert flaw("长江中下游地区遭遇强降雨，多个城市发生洪涝灾害。", 64) is None
    assert flaw("河水河水河水河水河水河水河水河水河水河水河水", 64) == "in circles"
    assert flaw("水", 64) == "no answer"
