"""Sentences that no summary needs, and those that only look like them: half were not looked at while rules changed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from specextend_cli.summarize.ranking.boilerplate import boilerplate
from specextend_cli.summarize.ranking.features import features
from specextend_cli.summarize.ranking.gains import concludes, recommends, tells_method
from specextend_cli.summarize.ranking.selection import Selector

from specextend_cli.summarize.ranking.candidates import candidates
from specextend_cli.summarize.ranking.readable import is_whole, printed
from tests.summarize.scribe import document


def labelled(name: str) -> list[tuple[str, str]]:
    """(class, sentence); the class of what a summary may have is "-"."""
    lines = Path(__file__).with_name(f"boilerplate_{name}.tsv").read_text(encoding="utf-8").split("\n")
    return [(kind, sentence) for kind, _, sentence in (line.partition("\t") for line in lines if line)]


@pytest.mark.parametrize(("name", "least"), [("tuned", 0.98), ("held_out", 0.94)])
def test_what_no_summary_needs_is_no_candidate(name: str, least: float) -> None:
    wanted = [sentence for kind, sentence in labelled(name) if kind != "-"]
    missed = [sentence for sentence in wanted if is_whole(printed(sentence))]
    assert len(wanted) > 50
    assert len(missed) <= (1 - least) * len(wanted), missed


@pytest.mark.parametrize("name", ["tuned", "held_out"])
def test_what_only_looks_like_it_stays(name: str) -> None:
    assert [sentence for kind, sentence in labelled(name) if kind == "-" and not is_whole(printed(sentence))] == []


@pytest.mark.parametrize(
    ("sentence", "kind"),
    [
        ("See 18 U.S.C. §§ 1503, 1505.", "pointer"),
        ("Id. at 1191 (quoting the instructions to the jury).", "citation"),
        ("A check or money order should be made out to the Superintendent of Documents.", "contact"),
        ("No virus found in this outgoing message.", "notice"),
        ("Martin, Lawrence L. “Making Performance-Based Contracting Perform: What the States Know.”", "reference"),
        ("Best regards, Thomas Reinhardt, Deputy Director of Finance.", "signature"),
        ("Table 3 shows that half of the ships were lost.", None),
        ("The next few sections will examine the storms of the century.", "announcement"),
        ("In this chapter, you read about harbours and what they cost.", "announcement"),
        ("What follows are three ways to close a harbour.", "announcement"),
        ("We will return to the price of wool in the next section.", "announcement"),
        ('The key words "MUST" and "MAY" are to be interpreted as described in RFC 2119.', "notice"),
        ("Watch the video on harbours, and answer these questions.", "pointer"),
        ("Read theories of the harbour are on this website.", None),
        ("This section of the harbour was closed in 1893.", None),
        ("In this section of the harbour, you may swim.", None),
        ("This section provides that nobody may fish in the harbour.", None),
        ("By the end of the year, the harbour was closed.", None),
        ("We will return to the harbour next week and repair the pier.", None),
    ],
)
def test_the_class_of_a_sentence(sentence: str, kind: str | None) -> None:
    assert boilerplate(sentence) == kind


PROSE = "The council of Falcaster bought the station in {} for a price that nobody knows."


def usable(text: str) -> list[str]:
    source = document(text)
    found = candidates(source)
    selector = Selector(source.text, found, features(source.text, found)[1])
    return [source.text[one.start : one.end] for one, ok in zip(found, selector.usable, strict=True) if ok]


def test_the_rest_of_a_cut_sentence_is_no_candidate() -> None:
    rest = "Affairs of the harbour were left to the council of the town."
    assert rest in usable(f"{PROSE.format(1871)}\n\n{rest}")
    assert rest not in usable(f"The report on the trade and the\n\n{rest}")
    assert f"Ann: {rest}" in usable(f"Bob: The report on the trade and the\n\nAnn: {rest}")


def test_a_recommendation_is_taken_before_background_of_the_same_score() -> None:
    asked = "The panel recommends that the council close the eastern pier before another storm."
    text = " ".join([*(PROSE.format(1871 + i).replace("station", f"house {i}") for i in range(40)), asked])
    source = document(text)
    found = candidates(source)
    selector = Selector(text, found, features(text, found)[1])
    scores = np.zeros(len(found), np.float32)
    scores[::2] = 0.5
    assert asked in [one.text for one in selector.select(scores, 200)]


@pytest.mark.parametrize(
    ("sentence", "found", "recommended"),
    [
        ("GAO recommends that the Secretary of Energy establish a strategy.", False, True),
        ("We recommend that every team checks its own alarms.", False, True),
        ("The Secretary of the Interior should order an inspection.", False, True),
        ("We are recommending that the Secretary educate all states.", False, True),
        ("A campaign has recommended that more infants be breastfed.", False, False),
        ("The panel found the field trials convincing.", True, False),
        ("Most studies suggest a peak between now and 2040.", True, False),
        ("Could you call the landlord before Thursday?", True, False),
        ("Each division must submit a revised plan to Karen by June 12.", True, False),
        ("Action: Ann Lee to write to the landlord.", True, False),
        ("The harbour was found by fishermen in 1871.", False, False),
        ("Her recommendations were read by nobody.", False, False),
    ],
)
def test_what_one_can_act_on(sentence: str, found: bool, recommended: bool) -> None:
    assert (concludes(sentence), recommends(sentence)) == (found, recommended)


@pytest.mark.parametrize(
    ("sentence", "told"),
    [
        ("To identify federal activities, we spoke with officials at DOE and USGS.", True),
        ("Breastfeeding rates: We analyzed data of a national survey.", True),
        ("To understand how formula is advertised, GAO purchased data on advertising.", True),
        ("To reduce the cost of a peak, the agencies need a strategy.", False),
        ("We found that most states do not limit the use of the logo.", False),
    ],
)
def test_how_it_was_found_out(sentence: str, told: bool) -> None:
    assert tells_method(sentence) == told
