"""The choice among ranked sentences: no repetition, no sentence without the one it speaks of, so many words."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from specextend_cli.summarize.ranking.features import features
from specextend_cli.summarize.ranking.selection import Selector

from specextend_cli.summarize.ranking.candidates import candidates
from specextend_cli.summarize.words import count_words
from tests.summarize.scribe import document

SENTENCES = [
    "The harbour of Falcaster was founded by fishermen in 1871.",
    "It was closed in the winter of 1893 after a storm.",
    "The council of Falcaster bought the railway station for 2,925 crowns.",
    "Wool and herring were sold on the market on most Saturdays.",
    "The council of Falcaster bought the railway station for 2,925 crowns in 1902.",
]


def selector(text: str) -> Selector:
    source = document(text)
    found = candidates(source)
    return Selector(text, found, features(text, found)[1])


def chosen(text: str, scores: list[float], words: int, **how: int | bool | None) -> list[str]:
    return [one.text for one in selector(text).select(np.array(scores, np.float32), words, **how)]


def test_the_best_come_in_the_documents_order() -> None:
    assert chosen(" ".join(SENTENCES[:4]), [2, 0, 0, 3], 21) == [SENTENCES[0], SENTENCES[3]]


def test_what_says_the_same_is_not_said_twice() -> None:
    assert chosen(" ".join(SENTENCES), [0, 0, 6.0, 2.5, 2.9], 22) == [SENTENCES[2], SENTENCES[3]]


@pytest.mark.parametrize(("words", "opens"), [(150, True), (60, False)])
def test_a_long_summary_opens_with_the_first_sentence(words: int, opens: bool) -> None:
    """Of sentences of one length; the first one is less than a deviation below the best."""
    lines = [f"The harbour of town {number} was bought by the council in {1800 + number}." for number in range(40)]
    scores = [1.6, *(2.0, 1.0) * 19, 2.0]
    assert (chosen(" ".join(lines), scores, words)[0] == lines[0]) is opens


def test_of_equals_the_longer_sentence_is_taken() -> None:
    assert chosen(" ".join(SENTENCES[:4]), [1.0, 1.0, 1.0, 1.0], 12) == [SENTENCES[2]]


def test_a_question_is_left_out_but_a_request_is_not() -> None:
    asked, wanted = "Who was the keeper of the harbour that night?", "Could you close the harbour before the storm?"
    assert chosen(" ".join([*SENTENCES[2:4], asked]), [1.0, 1.0, 2.0], 22) == SENTENCES[2:4]
    assert wanted in chosen(" ".join([*SENTENCES[2:4], wanted]), [1.0, 1.0, 2.0], 22)


@pytest.mark.parametrize(("item", "printed"), [("and plug-in electric cars", False), ("cars are on the market", True)])
def test_the_heading_of_an_item_is_not_printed(item: str, printed: bool) -> None:
    told = f"Lightweight and hybrid {item}."
    text = f"- {told} {SENTENCES[0]}\n- {SENTENCES[3]} {SENTENCES[2]}"
    assert (told in chosen(text, [9.0, 1.0, 1.0, 1.0], 40)) == printed


def test_how_something_was_found_out_comes_last() -> None:
    told = "To assess the state of the harbour, we reviewed its books of 1893."
    text = " ".join([told, SENTENCES[0], *SENTENCES[2:4]])
    assert chosen(text, [1.5, -1.0, 1.0, 1.0], 22) == SENTENCES[2:4]


def test_a_sentence_that_stands_twice_is_printed_once_however_good_it_is() -> None:
    twice = " ".join([SENTENCES[0], SENTENCES[2], SENTENCES[3], SENTENCES[0]])
    assert chosen(twice, [9, 0, -9, 9], 30) == [SENTENCES[0], SENTENCES[2], SENTENCES[3]]


def test_a_leaning_sentence_comes_with_the_one_before() -> None:
    assert chosen(" ".join(SENTENCES), [0, 3, 1, 1, 1], 21) == SENTENCES[:2]


def test_a_leaning_sentence_is_left_out_where_both_have_no_room() -> None:
    assert chosen(" ".join(SENTENCES[:4]), [0, 3, 0, 1], 11) == [SENTENCES[3]]


@pytest.mark.parametrize(
    "before",
    [
        "Contents of the report on storms\n",  # no sentence
        f"{SENTENCES[0]}\n\n",  # another paragraph
        "",
        f"{SENTENCES[0]} " + "They closed it in the winter of that year. " * 3,  # too far
    ],
)
def test_a_leaning_sentence_that_follows_nothing_is_not_printed(before: str) -> None:
    text = f"{before}{SENTENCES[1]} {SENTENCES[3]}"
    count = len(candidates(document(text)))
    scores = [0.0] * (count - 2) + [9.0, 1.0]
    assert SENTENCES[1] not in chosen(text, scores, 40)
    assert SENTENCES[3] in chosen(text, scores, 40)


def test_no_more_than_so_many() -> None:
    assert len(chosen(" ".join(SENTENCES), [1, 0, 1, 1, 0], 40, most=2)) == 2


def test_a_sentence_is_cut_only_where_whole_ones_do_not_fit() -> None:
    long = "The council of Falcaster, which met on Monday, bought the railway station and sold it again to the north."
    assert chosen(long, [1], 8, exact=True) == ["The council of Falcaster, which met on Monday…"]
    assert chosen(long, [1], 8) == []
    assert chosen(f"{long} {SENTENCES[3]}", [2, 1], 19, exact=True) == [long]


def test_no_scraps_are_taken_to_meet_a_number() -> None:
    text = f"Pub. {SENTENCES[0]} See above. {SENTENCES[2]} Is it so. Fig. 2. {SENTENCES[3]}"
    count = len(candidates(document(text)))
    for wanted in range(12, 30):
        found = chosen(text, [1.0] * count, wanted, exact=True)
        assert found
        assert all(any(one.rstrip("…") in sentence for sentence in SENTENCES) for one in found)


def test_repeated_sentences_are_taken_where_nothing_else_is_left() -> None:
    found = chosen("A line of the song comes again.\n" * 50, [1.0] * 50, 120, exact=True)
    assert abs(sum(map(count_words, found)) - 120) <= 18


def test_no_sentence_is_printed_twice_while_others_are_left() -> None:
    others = [f"The harbour of island number {n} is closed in winter." for n in range(9)]
    lines = [
        "The findings of the report come again.",
        *others[:5],
        "The Findings of the report come again.",
        *others[5:],
    ]
    for words in (20, 60, 90):
        found = chosen("\n".join(lines), [9.0, *[0.1] * 5, 9.0, *[0.1] * 4], words, exact=True)
        assert sum("indings" in one for one in found) == 1


def test_code_tables_and_headings_are_not_printed() -> None:
    text = "```\nThe harbour was founded by Ann in code.\n```\n| The harbour was founded by Ann in tables. |"
    assert not selector(text).usable.any()
    assert chosen(text, [1.0] * 4, 20, exact=True) == []


def test_the_lead_is_the_first_lines_of_any_kind() -> None:
    made = selector("| a | b |\n| c | d |\nthe end of it")
    assert [one.text for one in made.lead(7)] == ["| a | b |", "| c…"]
    assert [one.text for one in made.lead(99)] == ["| a | b |", "| c | d |", "the end of it"]


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from((20, 33, 50, 100, 200, 500)), st.integers(0, 1), st.sampled_from((8, 20, 45)), st.integers(0, 99)
)
def test_any_number_of_words_is_met(wanted: int, mark: int, longest: int, seed: int) -> None:
    order = random.Random(seed)
    words = ["rain", "fell", "over", "towns", "river", "banks", "walls", "stones", "mayors", "said", "waters", "rose"]
    made = [" ".join(order.choices(words, k=order.randint(6, longest))).capitalize() + "." for _ in range(150)]
    picked = selector(" ".join(made)).select(
        np.array([order.gauss(0, 1) for _ in made], np.float32), wanted, mark=mark, exact=True
    )
    assert abs(sum(count_words(one.text) + mark for one in picked) - wanted) <= 0.15 * wanted
    assert [one.sentence for one in picked] == sorted({one.sentence for one in picked})
