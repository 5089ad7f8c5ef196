"""Numbers, dates and names that a source does not have."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from specextend_cli.summarize.facts import FactSource, dates, numbers, values

SOURCE = (
    "The harbour of Port Ellery was opened on 12 March 1871 by Governor Anna O'Brien. It cost 1,000 crowns, that is"
    " 12 percent of the budget, and took twelve years. Italy lent $4.2 million in 1931; Germany lent nothing. The"
    " General Accounting Office counted 31 ships on the third of May. In Sept. 1999 the Société Générale closed it."
)


def found(text: str, source: str = SOURCE) -> list[tuple[str, str]]:
    marked = FactSource(source).unsupported(text)
    assert all(text[one.start : one.end] == one.text for one in marked)
    assert marked == sorted(marked, key=lambda one: one.start)
    return [(one.text, one.kind) for one in marked]


@pytest.mark.parametrize(
    "text",
    [
        "It cost 1000 crowns.",
        "It cost 1,000.00 crowns.",
        "It cost one thousand crowns.",
        "It cost 1 thousand crowns.",
        "It took 12% of the budget.",
        "It took 12 per cent and 12 years.",
        "It lent 4,200,000 dollars, or 4.2 million, or $4.2m.",
        "They counted thirty-one ships, on the 3rd.",
        "It was opened in March 1871, on March 12, 1871, on the 12th of March.",
        "It closed in September 1999.",
        "One of them, and hundreds of others, stayed.",
        "1. It opened.\n2. It closed.\n15. It rained.",
        "It was in port Ellery, Port ELLERY's harbour, near Ellery.",
        "There the Italian, the Italians and the German met O’Brien’s guests.",
        "All this the GAO counted.",
        "They asked Societe Generale.",
        "Nobody knew. Whether it rained is not said: Perhaps. “Never”, said Governor O'Brien.",
        "- Nobody knew\n- Whether it rained",
        "",
    ],
)
def test_what_the_source_says_in_other_words(text: str) -> None:
    assert found(text) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It cost 1,001 crowns.", [("1,001", "number")]),
        ("It cost 100 crowns and 10,000 men.", [("100", "number"), ("10,000", "number")]),
        ("It lent 4.2 billion.", [("4.2 billion", "number")]),
        ("It took fifteen years.", [("fifteen", "number")]),
        ("It was 13% of it.", [("13", "number")]),
        ("It closed in 2011. It opened in 2012. The end.", [("2011", "number"), ("2012", "number")]),
        ("That was in the 1950s, in 1951.", [("1950s", "number"), ("1951", "number")]),
        ("It was opened on 13 March 1871.", [("13 March 1871", "date")]),
        ("It was opened on 12 March 1872.", [("12 March 1872", "date")]),
        ("It was opened in April 1871.", [("April 1871", "date")]),
        ("It was opened by Maria O'Brien of Port Ellery.", [("Maria O'Brien", "name")]),
        ("The harbour of Port Arthur, the NASA's.", [("Port Arthur", "name"), ("NASA", "name")]),
        ("NASA closed it.", [("NASA", "name")]),
        ("The French, though, and Spain's king lent it.", [("French", "name"), ("Spain", "name")]),
    ],
)
def test_what_it_does_not_say(text: str, expected: list[tuple[str, str]]) -> None:
    assert found(text) == expected


def test_a_part_of_a_date_needs_no_more_than_that_part() -> None:
    assert found("It was on 12 March 1931.", "In 1931 much happened. On 12 March it rained.") == []
    assert found("It was on 12 March 1931.", "On 12 March 1930 it rained; 1931 was dry.") == [("12 March 1931", "date")]


def test_where_nouns_are_capitalized_names_cannot_be_told() -> None:
    german = "Der Hafen der Stadt wurde von Fischern als Schutz vor dem Wind am Ende der Bucht gebaut. " * 20
    assert found("Der Bau kostete der Verwaltung 30 Kronen.", german) == [("30", "number")]


@given(st.integers(0, 10**9))
def test_a_number_is_read_alike_with_and_without_separators(n: int) -> None:
    assert str(n) in values(f"about {n:,} crowns")
    assert found(f"About {n:,} crowns.", f"about {n} crowns") == []
    assert found(f"About {n} crowns.", f"about {n:,} crowns") == []


@example("0S", "")
@given(st.text(max_size=300), st.text(max_size=300))
def test_any_text_can_be_checked_and_supports_itself(text: str, other: str) -> None:
    assert [one for one in FactSource(text).unsupported(text) if one.kind != "name"] == []
    for one in FactSource(other).unsupported(text):
        assert text[one.start : one.end] == one.text != ""


@given(st.lists(st.sampled_from(["12", " ", ",000", ".", "March", "twenty", "-", "four", "1931", "million", "a"])))
def test_numbers_and_dates_do_not_overlap_each_other(pieces: list[str]) -> None:
    for kind in (numbers, dates):
        ends = [(one.start, one.end) for one in kind("".join(pieces))]
        assert all(start < end for start, end in ends)
        assert all(end <= start for (_, end), (start, _) in pairwise(ends))
