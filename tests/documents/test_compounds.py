"""Words with a hyphen at the end of a line keep it where they are compounds."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from specextend_cli.documents.line import HYPHEN, Line
from specextend_cli.documents.repairs.hyphens import hyphens

LONG_WORDS = [  # a document that divides no words: long ones begin its lines
    "the council of the whole harbour met and asked for",
    "information about the cost of the walls and of the",
    "foundations below them, which the oldest and the best",
    "engineers of the town had been asked to measure for a",
    "considerable time before they could begin to say what",
    "maintenance would cost the town in every one of the",
    "following years, in which they had to be mended by the",
    "inhabitants of the quarter at their own cost and with",
    "neighbours who lived on the other side of the river and",
]


def joined(lines: Sequence[str]) -> str:
    """The text of lines one below the other."""
    page = [Line(text, 1, 72, 72 + 5 * len(text), 700 - 12 * row, 10) for row, text in enumerate(lines)]
    return " ".join(line.text for line in hyphens([page])[0][0])


def test_a_document_that_divides_no_words_keeps_its_hyphens() -> None:
    assert "body-building nutrients" in joined([*LONG_WORDS, f"with a body and body{HYPHEN}", "building nutrients"])
    divided = ["a vita-", "min and the proc-", "ess of a vitamin for the re-", "port"]
    assert "the process of a vitamin for the report" in joined([*LONG_WORDS, *divided])


@pytest.mark.parametrize(
    ("first", "second", "wanted"),
    [
        ("Ein-", "und Ausgang", "Ein- und Ausgang"),
        ("the short-", "and long-term effects", "short- and long-term"),
        (f"pre{HYPHEN}", "or post-war", "pre- or post-war"),
        ("the milk-transport-", "ing ducts", "milk-transporting"),
        ("the trian-", "gular-shaped muscle", "triangular-shaped"),
        ("all that is un-", "like it", "unlike"),
    ],
)
def test_the_parts_of_a_word(first: str, second: str, wanted: str) -> None:
    assert wanted in joined(["the gov-", "ernment has its government", first, second])


def test_hyphens_that_only_divide_are_another_character() -> None:
    lines = ["a well-known tri\N{HYPHEN}", "angle that is so-", "named by all"]
    assert joined(lines) == "a well-known triangle that is so-named by all"
