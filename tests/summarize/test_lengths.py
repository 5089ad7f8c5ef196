"""`--length N`, whatever the style, the script and the document."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specextend_cli.summarize.request import LEAST, SummaryRequest
from specextend_cli.summarize.text.words import count_words
from tests.helpers.grid import but_for
from tests.summarize.scribe import Scribe, document, run, summarizer
from tests.summarize.tiny_preset import guided, text, write

STYLES = ("paragraph", "bullets", "abstract", "tldr", "outline")
SCRIPTS = {
    "Latin": ("rain fall over town river bank wall stone mayor said water rose night", " ", ". "),
    "Cyrillic": ("река вода город дождь мост камень ночь берег стена мэр сказал", " ", ". "),
    "Devanagari": ("नदी पानी गाँव सरकार योजना किसान वर्षा तालाब", " ", "। "),
    "Arabic": ("نهر ماء مدينة مطر جسر حجر ليل", " ", "؟ "),
    "Han": ("河 水 城 雨 桥 石 夜 岸 墙 说 人 民 年", "", "。"),
    "Thai": ("แม่น้ำ น้ำท่วม เมือง ฝน สะพาน หิน กลางคืน", "", " "),
}


@pytest.fixture(scope="session")
def preset(presets):
    path = write(presets["one"].parent / "lengths.toml", 3)
    words = path.read_text().replace("context = 512", "context = 8192")  # room for any length that is asked for
    path.write_text('mode = "extractive"\n' + words)
    return path


def prose(script: str, sentences: int, longest: int, seed: int) -> str:
    """Sentences of random lengths, in paragraphs."""
    words, gap, stop = SCRIPTS[script]
    order = random.Random(seed)
    made = [
        gap.join(order.choice(words.split()) for _ in range(order.randint(3, longest))).capitalize() + stop
        for _ in range(sentences)
    ]
    return "\n\n".join("".join(made[at : at + 4]).strip() for at in range(0, sentences, 4))


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(sorted(SCRIPTS)),
    st.sampled_from(STYLES),
    st.sampled_from((20, 33, 50, 100, 200, 500)),
    st.sampled_from((20, 30, 45)),
    st.integers(0, 1000),
)
def test_any_number_of_words_is_met(preset, script, style, wanted, longest, seed):
    source = prose(script, 150, longest, seed)
    summary, _ = run(summarizer(preset, asked={"length": wanted, "style": style}), document(source))
    if summary.method == "extractive":
        assert abs(count_words(summary.text) - wanted) <= 0.15 * wanted
    else:
        assert count_words(summary.text) <= 1.15 * wanted


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("script", but_for(("Latin",), ("Latin", "Han")))
def test_numbers_from_20_to_2000_are_met_in_every_style(preset, style, script):
    source = document(prose(script, 250, 30, 1))
    for wanted in (20, 50, 100, 500, 2000):
        summary, _ = run(summarizer(preset, asked={"length": wanted, "style": style}), source)
        assert summary.method == "extractive"
        assert abs(count_words(summary.text) - wanted) <= 0.15 * wanted


@settings(max_examples=25, deadline=None)
@given(
    st.text("ab 。.!\n-水ไ\u0301\u0964🙂(\"'•", min_size=1, max_size=200).filter(str.strip),
    st.integers(5, 60),
    st.sampled_from(STYLES),
)
def test_no_text_is_too_odd(preset, source, wanted, style):
    summary, _ = run(summarizer(preset, asked={"length": wanted, "style": style}), document(source))
    assert summary.text
    assert summary.method in ("extractive", "lead", "verbatim")


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("name", ["one", "three"])
def test_a_model_that_writes_too_much_is_stopped(presets, name, style):
    for wanted in (20, 60):
        made = summarizer(presets[name], asked={"length": wanted, "style": style, "mode": "abstractive"})
        words = count_words(run(made, document(text(30)))[0].text)
        assert words <= max(1.15 * wanted, 20)  # the longest sentence has 17 words
        assert words >= 0.5 * wanted


def test_a_tldr_of_so_many_words_is_not_cut_to_two_sentences(presets):
    said = "One two three four five. " + "Six seven eight nine ten. Five more words are here. One less. " * 2
    made = summarizer(presets["one"], Scribe(lambda prompt, most: said), asked={"length": 14, "style": "tldr"})
    assert (
        run(made, document(text(30)))[0].text
        == "One two three four five. Six seven eight nine ten. Five more words are here."
    )


def test_the_usual_length(preset):
    usual_words = summarizer(preset).settings.usual_words
    assert usual_words() == 36
    assert [usual_words(size) for size in (1, 90, 105, 1000)] == [LEAST, LEAST, 35, 36]
    assert SummaryRequest(length="short").words(300) == 100
    assert SummaryRequest(style="abstract", length="long").words(300) == 400


@pytest.mark.parametrize("style", ["paragraph", "bullets"])
def test_the_usual_length_is_met_within_a_sentence(preset, style):
    summary, _ = run(summarizer(preset, asked={"style": style}), document(text(60)))
    assert 36 - 10 <= count_words(summary.text) <= 36 + 10


@pytest.mark.parametrize("style", but_for(("paragraph", "bullets"), STYLES))
def test_never_more_tokens_than_said(presets, tokens, style):
    path, reader = guided(presets["one"].parent), None
    for most in (8, 12, 25, 40, 80):
        asked = {"length": 60, "max_tokens": most, "style": style}
        for source in (text(30), "\n".join(f"| {n} | rain over the town |" for n in range(90))):
            made = summarizer(path, asked=asked)
            made._reader = reader  # loaded once
            summary, _ = run(made, document(source))
            assert 0 < tokens(summary.text) <= most
            reader = made._reader


def test_without_a_model_a_token_is_a_word(preset):
    for most in (8, 12, 25, 40):
        summary, _ = run(summarizer(preset, asked={"length": 60, "max_tokens": most}), document(text(30)))
        assert most / 2 < count_words(summary.text) <= most


@pytest.mark.parametrize("asked", [{}, {"max_tokens": 300}, {"length": "long"}])
def test_a_tldr_has_two_sentences_at_most(preset, asked):
    summary, _ = run(summarizer(preset, asked={"style": "tldr", **asked}), document(text(60)))
    assert 1 <= len(summary.sentences) <= 2
