"""In which language a text is."""

from __future__ import annotations

import pytest

from specextend_cli.summarize.text.language import NAMES, language_of
from tests.summarize.test_wording import LANGUAGES, ROWS


@pytest.mark.parametrize("code", LANGUAGES)
def test_languages_are_told_apart(code: str) -> None:
    text = " ".join(row[2] for row in ROWS if row[:2] == (code, "-"))
    assert language_of(text) == code
    assert code in NAMES


@pytest.mark.parametrize(
    "text",
    ["", "12 34", "def f(a): return a", "Falcaster, Harbour Road 12", "Ōsaka and Kyōto", "It is the port of 临江."],
)
def test_what_says_nothing_is_taken_for_english(text: str) -> None:
    assert language_of(text) == "en"
