"""Whole sentences, each once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specextend_cli.summarize.sentences import Sentences, split


def released(text: str, *, whole: bool = False, size: int = 3) -> str:
    """What comes out of `text` when it arrives in pieces of that many characters."""
    sentences = Sentences()
    out = "".join(sentences.add(text[at : at + size]) for at in range(0, len(text), size))
    return out + sentences.finish(whole=whole)


@pytest.mark.parametrize(
    "sentence",
    [
        "A bridge of 3.5 km cost 86.2 million.",
        "Dr. Smith and Prof. J. R. Jones met Mrs. Hill on Nov. 3 in St. Ives.",
        "The U.S. Navy, e.g. its third fleet, sailed (see Fig. 2).",
        "Miller et al. disagree.",
        "The House passed H.Res. 1092 and S.Con.Res. 7 that day.",
        'He asked: "Why?"',
        "He said: “Never.”",
        "It was (as they say) over!)",
        "Version 2.0.1 of example.org is out.",
        "1. The first item has a number.",
    ],
)
def test_a_sentence_ends_where_it_ends(sentence):
    for size in (1, 4, 1000):
        assert released(f"{sentence} And this one is unfin", size=size).strip() == sentence


@pytest.mark.parametrize("begun", ["Unfin", "3.", "It cost 3.", "Mr.", "2. Item"])
def test_an_unfinished_end_is_left_out(begun):
    assert released(f"One is whole. {begun}") == "One is whole. "
    assert released(f"One is whole. {begun}", whole=True) == f"One is whole. {begun}"


@pytest.mark.parametrize("begin", ["", "\n\n", "… ", "- "])
def test_an_unfinished_sentence_is_better_than_nothing(begin):
    assert released(f"{begin}A long one without any").strip() == f"{begin}A long one without any".strip()


@pytest.mark.parametrize(
    "sentences",
    [
        ["港口建于1871年。", "船只停泊在「这里。」", "谁知道？！", "没有"],
        ["气温是３．５度。", "风很大！", "完"],
        ["「はい。」と言った。", "（そうだ。）", "彼は帰った。", "終"],
        ["नदी में पानी घटा है।", " कारण क्या है?", " सरकार ने कहा॥", " अंत"],
        ["انخفض منسوب النهر.", " هل تكفي الخزانات؟", " لا."],
        ["دریا خشک ہو گیا۔", "لوگ چلے گئے۔", "ختم"],
        ["Գետը ցամաքեց։", " Մարդիկ գնացին։", " Վերջ"],
        ["ወንዙ ደረቀ።", "ሰዎች ሄዱ።", "አበቃ"],
        ["ទន្លេរីងស្ងួត។", "មនុស្សចាកចេញ។", "ចប់"],
        ["А. С. Пушкин родился в 1799 г. в Москве.", " Он писал."],
        ["O Sr. Silva chegou.", " A Sra. Dias partiu."],
        ["제방이 무너졌다.", " 주민이 대피했다."],
    ],
)
def test_other_scripts_have_sentences_too(sentences):
    assert split("".join(sentences)) == [
        one + " " * after.startswith(" ") if after else one
        for one, after in zip((one.lstrip(" ") for one in sentences), [*sentences[1:], ""], strict=True)
    ]
    for size in (1, 2, 1000):
        assert released("".join(sentences), whole=True, size=size) == "".join(sentences)


def test_a_space_ends_a_thai_sentence_of_some_length():
    phrase, more = "กรุงเทพมหานครประสบปัญหาน้ำท่วม", "เนื่องจากพื้นที่ส่วนใหญ่อยู่ต่ำกว่าระดับน้ำทะเล"
    assert split(f"{phrase} {more} ในปี 2554 น้ำท่วม") == [f"{phrase} {more} ", "ในปี 2554 น้ำท่วม"]


def test_lines_end_sentences():
    assert released("Findings\n- one\n- two\n- thr") == "Findings\n- one\n- two\n"


def test_a_repeated_sentence_is_dropped_whatever_its_punctuation():
    assert released("It rains. It snows. It  rains! It hails. ") == "It rains. It snows. It hails. "


@pytest.mark.parametrize("gap", [" ", "\n", "\n\n", " ... "])
def test_two_repetitions_in_a_row_are_a_loop(gap):
    sentences = Sentences()
    for character in gap.join(["It rains.", "It snows.", "It rains.", "It snows.", "It "]):
        sentences.add(character)
    assert sentences.looping


def test_repetitions_far_apart_are_no_loop():
    sentences = Sentences()
    assert sentences.add("Yes. One. Yes. Two. Yes. Three. ") == "Yes. One. Two. "
    assert not sentences.looping


@given(st.text("ab .!?\n\"'19", max_size=60), st.integers(1, 7))
def test_pieces_make_no_difference_to_what_is_kept(text, size):
    """Up to white space and bare punctuation, which may stand on either side of a cut."""
    words = released(text, whole=True, size=1000).split()
    assert "".join(words) == "".join(released(text, whole=True, size=size).split())


@given(st.lists(st.sampled_from(["It rains. ", "It snows. ", "Mr. Hill left. ", "3.5 km. "]), max_size=8))
def test_nothing_is_said_twice_and_nothing_new_is_lost(said):
    out = released("".join(said))
    assert all(out.count(sentence) == 1 for sentence in set(said))
