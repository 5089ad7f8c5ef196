"""Where sentences end, on places labelled by hand; and whole sentences out of a stream, each once."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specextend_cli.summarize.sentences import Sentences, spans, split
from tests.scripts.sentence_splitters import DATA, labelled, ours, right

EXACT = Path(__file__).with_name("breaks_exact.txt").read_text(encoding="utf-8").splitlines()
"""In many languages and scripts; "|" is where a sentence ends."""


def released(text: str, *, whole: bool = False, size: int = 3) -> str:
    """What comes out of `text` when it arrives in pieces of that many characters."""
    sentences = Sentences()
    out = "".join(sentences.add(text[at : at + size]) for at in range(0, len(text), size))
    return out + sentences.finish(whole=whole)


def stripped(text: str) -> list[str]:
    return [one.strip() for one in split(text)]


@pytest.mark.parametrize(("name", "least"), [("tuned", 0.98), ("held_out", 0.96)])
def test_most_labelled_places_are_told(name: str, least: float) -> None:
    """Half of them were not looked at while the rules were changed."""
    found = right(ours, name)
    assert len(found) > 180
    wrong = [f"{text[:at]}<>{text[at:]}" for text, at, _, good in found if not good]
    assert len(wrong) <= (1 - least) * len(found), wrong


def test_all_places_of_a_list_are_told() -> None:
    told = [(line, stripped(line.replace("|", ""))) for line in EXACT]
    assert [(line, found) for line, found in told if found != [one.strip() for one in line.split("|")]] == []


@pytest.mark.parametrize("name", [*DATA, "exact"])
def test_positions_are_exact_and_a_stream_says_the_same(name: str) -> None:
    lines = EXACT if name == "exact" else filter(None, DATA[name].read_text(encoding="utf-8").split("\n"))
    for text in (labelled(line)[0] for line in lines):
        assert "".join(split(text)) == text
        assert [text[start:end] for start, end in spans(text)] == stripped(text)
        for size in (1, 4, 50):
            stream = Sentences()
            pieces = [stream.add(text[at : at + size]) for at in range(0, len(text), size)]
            pieces.append(stream.finish(whole=True))
            assert [one for piece in pieces for one in stripped(piece)] == stripped(text)


@pytest.mark.parametrize("begun", ["Unfin", "3.", "It cost 3.", "Mr.", "2. Item"])
def test_an_unfinished_end_is_left_out(begun: str) -> None:
    assert released(f"One is whole. {begun}") == "One is whole. "
    assert released(f"One is whole. {begun}", whole=True) == f"One is whole. {begun}"


@pytest.mark.parametrize("begin", ["", "\n\n", "… ", "- "])
def test_an_unfinished_sentence_is_better_than_nothing(begin: str) -> None:
    assert released(f"{begin}A long one without any").strip() == f"{begin}A long one without any".strip()


def test_lines_and_paragraphs_end_sentences_and_open_quotations_do_not_run_on() -> None:
    assert released("Findings\n- one\n- two\n- thr") == "Findings\n- one\n- two\n"
    assert split("Dr. \n\nThe next page begins here.") == ["Dr. \n\n", "The next page begins here."]
    assert len(split("「" + "長い文である。" * 200)) > 100


def test_a_repeated_sentence_is_dropped_whatever_its_punctuation() -> None:
    assert released("It rains. It snows. It  rains! It hails. ") == "It rains. It snows. It hails. "


@pytest.mark.parametrize("gap", [" ", "\n", "\n\n", " ... "])
def test_two_repetitions_in_a_row_are_a_loop(gap: str) -> None:
    sentences, apart = Sentences(), Sentences()
    for character in gap.join(["It rains.", "It snows.", "It rains.", "It snows.", "It "]):
        sentences.add(character)
    assert sentences.looping
    assert apart.add("Yes. One. Yes. Two. Yes. Three. ") == "Yes. One. Two. "
    assert not apart.looping


@given(st.text("ab .!?\n\"'19", max_size=60), st.integers(1, 7))
def test_pieces_make_no_difference_to_what_is_kept(text: str, size: int) -> None:
    """Up to white space and bare punctuation, which may stand on either side of a cut."""
    words = released(text, whole=True, size=1000).split()
    assert "".join(words) == "".join(released(text, whole=True, size=size).split())


@given(st.lists(st.sampled_from(["It rains. ", "It snows. ", "Mr. Hill left. ", "3.5 km. "]), max_size=8))
def test_nothing_is_said_twice_and_nothing_new_is_lost(said: list[str]) -> None:
    out = released("".join(said))
    assert all(out.count(sentence) == 1 for sentence in set(said))
