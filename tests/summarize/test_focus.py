"""`--focus` where sentences are quoted: those with its words come first."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from specextend_cli.documents.read import read_bytes
from specextend_cli.summarize.events import Summary, Warned
from specextend_cli.summarize.ranking.candidates import candidates
from specextend_cli.summarize.ranking.score import FOCUS, gain
from specextend_cli.summarize.words import terms
from tests.summarize.examples import COUNCIL
from tests.summarize.scribe import document, quote

PRICES = (
    "The prices of timber were fixed by the mayor of Falcaster in spring.",
    "Every price of salt had been doubled by then without a reason.",
)
ZEBRA = "Somebody brought a zebra to the market of the island last year."
PARTS = (COUNCIL[:9], (PRICES[0], ZEBRA), COUNCIL[9:40], PRICES[1:], COUNCIL[40:], PRICES[:1])
LONG = "\n\n".join(map(" ".join, PARTS))


def summarize(source: str = LONG, **asked: Any) -> tuple[Summary, list[str]]:
    """The summary, and the warnings."""
    summary, events = quote(read_bytes("a.md", source.encode()), **asked)
    return summary, [event.message for event in events if isinstance(event, Warned)]


@pytest.mark.parametrize("focus", ["price", "What are the prices?", "PRICES fixed, doubled!"])
def test_sentences_with_its_words_come_first(focus: str) -> None:
    summary, warned = summarize(focus=focus, length=24)
    assert {one.text for one in summary.sentences} == set(PRICES)  # one of them stands in it twice
    assert (warned, summary.request.focus) == ([], focus)


def test_the_rest_is_a_summary_as_without_it() -> None:
    with_it, without = (
        [one.text for one in summarize(length=120, focus=focus)[0].sentences] for focus in ("zebra", None)
    )
    assert ZEBRA in with_it
    assert len({*with_it} & {*without}) >= len(without) // 2
    assert with_it == sorted(with_it, key=LONG.index)


@pytest.mark.parametrize("focus", ["cryptocurrency", "Who is what?", "比特币", "?!"])
def test_words_that_no_sentence_has_are_said_and_change_nothing(focus: str) -> None:
    table = "\n".join(f"| {n} | cryptocurrency | {n * 7} |" for n in range(20))
    source = f"# Prices\n\n{' '.join(COUNCIL)}\n\n{table}\n\n# Abstract\n\n{PRICES[0]} {ZEBRA}"
    summary, warned = summarize(source, focus=focus)
    without, _ = summarize(source)
    assert warned == [
        "a.md: no sentence that can be quoted has a word of --focus, so the summary is of the whole document"
    ]
    assert (summary.warnings, summary.text, summary.own) == (tuple(warned), without.text, without.own)
    assert without.own is not None


@pytest.mark.parametrize("number", [0, 1])
def test_a_heading_tells_what_its_sentences_are_about(number: int) -> None:
    sections = [f"# Rivers\n\n{' '.join(COUNCIL[2:4])}", f"# Bridges\n\n{' '.join(COUNCIL[4:6])}"]
    focus = ("rivers", "bridges")[number]
    assert summarize("\n\n".join(sections), focus=focus, length=16)[0].text in sections[number]


def shares(focus: str, *sentences: str, usable: bool = True) -> list[float]:
    source = document("\n\n".join(sentences))
    found = candidates(source)
    bags = [terms(source.text[one.start : one.end]) for one in found]
    return (gain(focus, found, bags, np.full(len(found), usable)) / FOCUS).tolist()


def test_rare_words_count_more_and_question_words_only_where_there_are_no_others() -> None:
    common = ["The harbour of the town was rebuilt again."] * 8
    said = ("The harbour needs dredging before winter.", "The dredging of the channel is expensive.", common[0])
    both, rare, many, none = shares("harbour dredging", *said, "Wool is sold on Saturdays.", *common[1:])[:4]
    assert both == 1.0
    assert rare > 2 * many > 0 == none
    asked = ("What was it that they did there?", "The price of wool was low in spring.")
    assert shares("What is the price?", *asked) == [0.0, 1.0]
    assert shares("What was it?", *asked)[0] == 1.0
    chinese = ("木材的价格由市长在春天决定，没有人反对这个决定。", "羊毛每个星期六在市场上出售，已经有很多年了。")
    assert shares("价格", *chinese) == [1.0, 0.0]


def test_only_what_can_be_quoted_gains() -> None:
    assert not any(shares("wool", "Wool is sold on Saturdays.", usable=False))
