"""`--focus` where sentences are quoted: those with its words come first."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from specextend_cli.summarize.ranking.gains import WEIGHT, gain, relevance

from specextend_cli.documents.read import read_bytes
from specextend_cli.summarize.events import Summary, Warned
from specextend_cli.summarize.ranking.candidates import candidates
from specextend_cli.summarize.words import terms
from tests.summarize.scribe import quote

PRICES = (
    "The prices of timber were fixed by the mayor of Falcaster in spring.",
    "Every price of salt had been doubled by then without a reason.",
)
ZEBRA = "Somebody brought a zebra to the market of the island last year."
THINGS = "harbour bridge tower school market chapel prison quarry garden brewery orchard theatre"
DEEDS = "built painted closed rented burned enlarged"
PLAIN = [
    f"The {thing} of the island was {deed} by the council in {1800 + 7 * n} and after {n + 3} years."
    for n, (deed, thing) in enumerate((deed, thing) for deed in DEEDS.split() for thing in THINGS.split())
]
LONG = "\n\n".join(
    " ".join(some) for some in (PLAIN[:9], [PRICES[0], ZEBRA], PLAIN[9:40], [PRICES[1]], PLAIN[40:], [PRICES[0]])
)
RIVERS = """\
# Rivers

The water was measured at nine places on the first day of June. The wool was sold on the market of Falcaster.

# Bridges

The council of Falcaster discussed how much timber was needed for it. Nobody answered when the mayor asked for more.
"""


def summarize(source: str = LONG, **asked: Any) -> tuple[Summary, list[str]]:
    """The summary, and the warnings."""
    summary, events = quote(read_bytes("a.md" if source is RIVERS else "a.txt", source.encode()), **asked)
    return summary, [event.message for event in events if isinstance(event, Warned)]


@pytest.mark.parametrize("focus", ["price", "What are the prices?", "PRICES fixed, doubled!"])
def test_sentences_with_its_words_come_first(focus) -> None:
    summary, warned = summarize(focus=focus, length=24)
    assert {one.text for one in summary.sentences} == set(PRICES)  # one of them stands in it twice
    assert not warned
    assert summary.request.focus == focus


def test_the_rest_is_a_summary_as_without_it() -> None:
    with_it, without = (summarize(length=120, focus=focus)[0] for focus in ("zebra", None))
    assert ZEBRA in with_it.text
    shared = {one.text for one in with_it.sentences} & {one.text for one in without.sentences}
    assert len(shared) >= len(without.sentences) // 2, (len(shared), len(without.sentences))
    starts = [one.citations[0].start for one in with_it.sentences]
    assert starts == sorted(starts)


@pytest.mark.parametrize("focus", ["cryptocurrency", "Who is what?", "比特币", "?!"])
def test_words_that_no_sentence_has_are_said_and_change_nothing(focus) -> None:
    source = " ".join(PLAIN)
    summary, warned = summarize(source, focus=focus)
    assert warned == [
        "a.txt: no sentence that can be quoted has a word of --focus, so the summary is of the whole document"
    ]
    assert summary.warnings == tuple(warned)
    assert summary.text == summarize(source)[0].text


def test_what_only_a_table_has_cannot_be_quoted() -> None:
    table = "\n".join(f"| {n} | cryptocurrency | {n * 7} |" for n in range(20))
    _, warned = summarize(f"{LONG}\n\n{table}", focus="cryptocurrency")
    assert len(warned) == 1


def test_a_heading_tells_what_its_sentences_are_about() -> None:
    for focus, expected in _HEADINGS.items():
        found = summarize(RIVERS, focus=focus, length=12)[0].text
        assert any(one in found for one in expected), (focus, found)


_HEADINGS = {
    "rivers": ("The water was measured", "The wool was sold"),
    "bridges": ("The council of Falcaster", "Nobody answered"),
}


def shares(focus: str, sentences: list[str]) -> list[float]:
    read = read_bytes("a.txt", "\n\n".join(sentences).encode())
    found = candidates(read)
    bags = [terms(read.text[one.start : one.end]) for one in found]
    return relevance(focus, found, bags).tolist()


def test_rare_words_count_more() -> None:
    common = ["The harbour of the town was rebuilt again."] * 8
    both, rare, many, none = shares(
        "harbour dredging",
        [
            "The harbour needs dredging before winter.",
            "The dredging of the channel is expensive.",
            common[0],
            "Wool is sold on Saturdays in the town.",
            *common[1:],
        ],
    )[:4]
    assert both == 1.0
    assert rare > 2 * many > 0
    assert none == 0.0


def test_question_words_count_where_there_are_no_others() -> None:
    sentences = ["What was it that they did there?", "The price of wool was low in spring."]
    assert shares("What is the price?", sentences) == [0.0, 1.0]
    assert shares("What was it?", sentences)[0] == 1.0


def test_scripts_without_spaces() -> None:
    first, second = shares(
        "价格", ["木材的价格由市长在春天决定，没有人反对这个决定。", "羊毛每个星期六在市场上出售，已经有很多年了。"]
    )
    assert (first, second) == (1.0, 0.0)


def test_the_best_match_that_can_be_quoted_gains_most() -> None:
    share = np.array([0.2, 0.0, 0.1, 0.4], np.float32)
    assert gain(share, np.array([True, True, True, False])).tolist() == [WEIGHT, 0.0, WEIGHT / 2, 0.0]
    assert not gain(share, np.zeros(4, bool)).any()
