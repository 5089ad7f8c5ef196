"""The choice among scored sentences: no repetition, no sentence without the one it speaks of, so many words."""

from __future__ import annotations

from math import log

import numpy as np
import pytest

from specextend_cli.summarize.ranking.candidates import candidates
from specextend_cli.summarize.ranking.recurring import RecurringPairs
from specextend_cli.summarize.ranking.score import score
from specextend_cli.summarize.ranking.select import Selector
from specextend_cli.summarize.words import count_words
from tests.summarize.examples import COUNCIL, HARBOUR
from tests.summarize.scribe import document

LONG = "The council of Falcaster, which met on Monday, bought the railway station and sold it again to the north."
TAXES = [f"The harbour tax of {1800 + number} was paid for by the boats." for number in range(3)]
STORM = "A storm in the night took the roof of the lighthouse."


def selector(text: str, *, conversation: bool = False) -> Selector:
    found = candidates(document(text))
    return Selector(text, found, score(text, "", found)[1], conversation=conversation)


def chosen(text: str, scores: list[float], words: int, **how: int | bool | None) -> list[str]:
    return [one.text for one in selector(text).select(np.array(scores, np.float32), words, **how)]


@pytest.mark.parametrize(
    ("sentences", "scores", "words", "expected"),
    [
        # The best ones, in the document's order.
        (HARBOUR[:4], [2, 0, 0, 3], 21, [HARBOUR[0], HARBOUR[3]]),
        # What says the same is not said twice.
        (HARBOUR, [0, 0, 6.0, 2.5, 2.9], 22, [HARBOUR[2], HARBOUR[3]]),
        ((HARBOUR[0], *HARBOUR[2:4], HARBOUR[0]), [9, 0, -9, 9], 30, [HARBOUR[0], HARBOUR[2], HARBOUR[3]]),
        # Of equals the longer one.
        (HARBOUR[:4], [1, 1, 1, 1], 12, [HARBOUR[2]]),
        # A sentence that leans comes with the one before it, or not at all.
        (HARBOUR, [0, 3, 1, 1, 1], 21, [*HARBOUR[:2]]),
        (HARBOUR[:4], [0, 3, 0, 1], 11, [HARBOUR[3]]),
        # A question says nothing without its answer; a request does.
        ((*HARBOUR[2:4], "Who was the keeper of the harbour that night?"), [1, 1, 2], 22, [*HARBOUR[2:4]]),
        # How something was found out comes last, and a finding first.
        (
            ("To assess the old harbour, we reviewed its books of 1893.", HARBOUR[0], *HARBOUR[2:4]),
            [1.9, -1, 1, 1],
            22,
            [*HARBOUR[2:4]],
        ),
        *(
            ((*HARBOUR[2:4], line), [2, 0, 1.8], 10, [line])
            for line in (
                "The panel found the harbour of the old town too small.",
                "Action: Ann to write to all who own ships or boats.",
            )
        ),
        # A list's item that is cut from its heading is no sentence.
        (("Contents of the report on storms\n" + HARBOUR[1], HARBOUR[3]), [0, 9, 1], 22, [HARBOUR[3]]),
        # Two of a paragraph hang together.
        ((f"{COUNCIL[0]}\n\n{COUNCIL[1]}", COUNCIL[2]), [1, 2, 0.9], 32, [*COUNCIL[1:3]]),
        # What recurs counts, and once.
        ((STORM, *TAXES), [1, 1, 0.9, 0.9], 11, [TAXES[0]]),
        ((STORM, *TAXES), [1.3, 1, 0.9, 0.9], 22, [STORM, TAXES[0]]),
    ],
)  # fmt: skip
def test_which_sentences_are_chosen(
    sentences: tuple[str, ...], scores: list[float], words: int, expected: list[str]
) -> None:
    assert chosen(" ".join(sentences), scores, words) == expected


@pytest.mark.parametrize(
    "before", [f"{HARBOUR[0]}\n\n", "", f"{HARBOUR[0]} " + "They closed it in the winter of that year. " * 3]
)
def test_a_sentence_whose_chain_begins_nowhere_or_too_far_is_not_printed(before: str) -> None:
    """In another paragraph, at the beginning, or with more than two between."""
    text = f"{before}{HARBOUR[1]} {HARBOUR[3]}"
    scores = [0.0] * (len(candidates(document(text))) - 2) + [9.0, 1.0]
    found = chosen(text, scores, 80)
    assert (HARBOUR[1] in found, HARBOUR[3] in found) == (False, True)


@pytest.mark.parametrize(("words", "is_chosen"), [(160, True), (140, False)])
def test_a_summary_with_room_for_it_has_the_best_recommendation(words: int, is_chosen: bool) -> None:
    asked = "The panel advises that some of the piers be closed before the next of the storms of winter."
    scores = [*np.linspace(1, 2, 40), 0.6]
    assert (asked in chosen(" ".join([*COUNCIL[:40], asked]), scores, words)) == is_chosen


@pytest.mark.parametrize(
    ("text", "scores", "words", "how", "expected"),
    [
        (LONG, [1], 8, {"exact": True}, ["The council of Falcaster, which met on Monday…"]),
        (LONG, [1], 8, {}, []),
        (f"{HARBOUR[0]} {LONG}", [2, 1], 12, {"exact": True}, [LONG.partition(" and")[0] + "…"]),  # no scrap of it
        (f"{LONG} {HARBOUR[3]}", [2, 1], 19, {"exact": True}, [LONG]),  # near enough
        (" ".join(HARBOUR), [1, 0, 1, 1, 0], 40, {"most": 2}, [HARBOUR[2], HARBOUR[3]]),
        ("```\nThe tax was raised by Ann.\n```\n| The tax was raised by Ann. |", [1] * 4, 20, {"exact": True}, []),
    ],
)
def test_a_sentence_is_cut_only_where_whole_ones_do_not_fit(
    text: str, scores: list[float], words: int, how: dict[str, int], expected: list[str]
) -> None:
    assert chosen(text, scores, words, **how) == expected


def test_repeated_sentences_are_taken_where_nothing_else_is_left() -> None:
    found = chosen("A line of the song comes again.\n" * 50, [1.0] * 50, 120, exact=True)
    assert abs(sum(map(count_words, found)) - 120) <= 18
    lines = ["The song of the sea comes again.", *COUNCIL[:5], "The Song of the sea comes again.", *COUNCIL[5:9]]
    for words in (24, 60, 100):
        found = chosen("\n".join(lines), [9.0, *[0.1] * 5, 9.0, *[0.1] * 4], words, exact=True)
        assert sum("of the sea" in one for one in found) == 1


def test_the_lead_is_the_first_lines_of_any_kind() -> None:
    made = selector("| a | b |\n| c | d |\n---\nthe end of it")
    assert [one.text for one in made.lead(7)] == ["| a | b |", "| c…"]
    assert [one.text for one in made.lead(99)] == ["| a | b |", "| c | d |", "the end of it"]


def test_what_only_answers_is_left_out_of_a_conversation_only() -> None:
    """It is a whole sentence of nine words, of which fillers leave at most six."""
    answers = ("Um, yeah, I think it was on the telly.", "We need that, you know, just this one year?")
    text = " ".join([*COUNCIL[:3], *answers])
    assert selector(text).usable.tolist() == [True] * 5
    assert selector(text, conversation=True).usable.tolist() == [True] * 3 + [False] * 2


LINES = [
    "The harbour tax was raised by the council in the spring.",
    "The council sold the station to the town of Falcaster.",
    "All of the boats in the harbour pay the harbour tax.",
    "It was the harbour tax that paid for the lighthouse at the end of the pier.",
    "A storm took the roof of the old lighthouse.",
]
SIZES = np.array([len(line.split()) for line in LINES])


def test_a_pair_counts_by_the_lines_that_have_it_and_once_in_a_summary() -> None:
    """ "Harbour tax" is in three lines; "old lighthouse" is in one; "of the" says nothing."""
    pairs = RecurringPairs(LINES, SIZES)
    assert pairs.worth().tolist() == pytest.approx([log(3) / 11, 0, log(3) / 11, log(3) / 16, 0])
    assert pairs.worth([3]).tolist() == [0] * 5
    assert pairs.worth([1, 4]).tolist() == pairs.worth().tolist()
    assert not RecurringPairs([LINES[0]] * 9 + LINES[1:2], np.full(10, 11)).worth().any()  # equal lines are one


@pytest.mark.parametrize(
    "line", ["Die Steuer für den Hafen wurde vom Rat erhöht.", "港の税は春に議会によって引き上げられた。", ""]
)
def test_pairs_of_other_languages_do_not_count(line: str) -> None:
    assert not RecurringPairs([line, f"{line} {line}", line + "."], np.array([9, 18, 9])).worth().any()


@pytest.mark.parametrize(("words", "first"), [(40, STORM), (300, TAXES[0])])
def test_pairs_count_more_in_a_longer_summary(words: int, first: str) -> None:
    made = selector(" ".join([STORM, *TAXES]))
    scores = np.array([2.5, 1, 0, 0], np.float32)
    assert [one.text for one in made.select(scores, words, most=1)] == [first]
