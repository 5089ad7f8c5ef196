"""Where sentences end, on places labelled by hand: half of them were not looked at while the rules were changed."""

from __future__ import annotations

import pytest

from specextend_cli.summarize.sentences import Sentences, spans, split
from tests.scripts.sentence_splitters import DATA, labelled, ours, right


@pytest.mark.parametrize(("name", "least"), [("tuned", 0.98), ("held_out", 0.96)])
def test_most_labelled_places_are_told(name: str, least: float) -> None:
    found = right(ours, name)
    assert len(found) > 180
    wrong = [f"{text[:at]}<>{text[at:]}" for text, at, _, good in found if not good]
    assert len(wrong) <= (1 - least) * len(found), wrong


@pytest.mark.parametrize("name", list(DATA))
def test_positions_are_exact_and_a_stream_says_the_same(name: str) -> None:
    lines = [labelled(line)[0] for line in DATA[name].read_text(encoding="utf-8").split("\n") if line]
    for text in lines:
        assert "".join(split(text)) == text
        assert [text[start:end] for start, end in spans(text)] == [part.strip() for part in split(text)]
        for size in (1, 4, 50):
            stream = Sentences()
            pieces = [stream.add(text[at : at + size]) for at in range(0, len(text), size)]
            pieces.append(stream.finish(whole=True))
            assert [one.strip() for piece in pieces for one in split(piece)] == [one.strip() for one in split(text)]


@pytest.mark.parametrize(
    "text",
    [
        "Donald Trump Jr. took a brief meeting with the lawyer.",
        "The hearing starts at 5 p.m. Eastern time in the old hall.",
        "The company Yahoo! Inc. bought the site for 3 million dollars.",
        "See United States v. Larkin, 12 F.3d 44 (9th Cir. 1994), for the rule.",
        "“Where is it?” he asked, and nobody answered.",
    ],
)
def test_one_sentence(text: str) -> None:
    assert split(text) == [text]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("The ship left at 5 p.m. ", "The crew was asleep."),
        ("She has worked for Apple Inc. ", "Her brother works there too."),
        ("If that fails, there is plan B. ", "It costs more."),
        ("The committee agreed.[4] ", "Its chairman did not."),
        ("i went home. ", "then i slept."),
        ("The types are no endpoint of the API server. ", "kubeadm follows the convention."),
        ("Sales fell. ", "iPhone prices did not."),
        ("Dr. \n\n", "The next page begins here."),
    ],
)
def test_two_sentences(one: str, other: str) -> None:
    assert split(one + other) == [one, other]
