"""`--length N`, whatever the style, the script and the document."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specextend_cli.models.presets import load_preset
from specextend_cli.summarize.request import Request, target_words
from specextend_cli.summarize.words import count_words
from tests.summarize.scribe import Scribe, document, quote, run, summarizer
from tests.summarize.tiny_preset import text

STYLES = ("paragraph", "bullets", "abstract", "tldr")
SCRIPTS = {
    "Latin": ("rain fall over town river bank wall stone mayor said water rose night", " ", ". "),
    "Cyrillic": ("река вода город дождь мост камень ночь берег стена мэр сказал", " ", ". "),
    "Devanagari": ("नदी पानी गाँव सरकार योजना किसान वर्षा तालाब", " ", "। "),
    "Arabic": ("نهر ماء مدينة مطر جسر حجر ليل", " ", "؟ "),
    "Han": ("河 水 城 雨 桥 石 夜 岸 墙 说 人 民 年", "", "。"),
    "Thai": ("แม่น้ำ น้ำท่วม เมือง ฝน สะพาน หิน กลางคืน", "", " "),
}


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
    st.sampled_from((20, 33, 50, 100, 200, 500, 2000)),
    st.sampled_from((20, 30, 45)),
    st.integers(0, 1000),
)
def test_any_number_of_words_is_met(script, style, wanted, longest, seed):
    source = prose(script, 150, longest, seed)
    summary, _ = quote(document(source), length=wanted, style=style)
    for sentence in summary.sentences:
        (citation,) = sentence.citations
        assert "".join(sentence.text.removesuffix("…").split()) in "".join(
            source[citation.start : citation.end].split()
        )
    if script == "Han" and style == "abstract":
        assert " " not in summary.text
    if summary.method == "extractive":
        assert abs(count_words(summary.text) - wanted) <= 0.15 * wanted
    else:
        assert count_words(summary.text) <= 1.15 * wanted


@settings(max_examples=25, deadline=None)
@given(
    st.text("ab 。.!\n-水ไ\u0301\u0964🙂(\"'•", min_size=1, max_size=200).filter(str.strip),
    st.integers(5, 60),
    st.sampled_from(STYLES),
)
def test_no_text_is_too_odd(source, wanted, style):
    summary, _ = quote(document(source), length=wanted, style=style)
    assert summary.text
    assert summary.method in ("extractive", "lead", "verbatim")


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("name", ["one", "three"])
def test_a_model_that_writes_too_much_is_stopped(presets, name, style):
    for wanted in (20, 60):
        words = count_words(
            run(summarizer(presets[name], asked={"length": wanted, "style": style}), document(text(30)))[0].text
        )
        assert 0.5 * wanted <= words <= max(1.15 * wanted, 20)  # the longest sentence has 17 words


def test_a_tldr_has_two_sentences_unless_it_has_a_number_of_words(presets):
    said = "One two three four five. " + "Six seven eight nine ten. Five more words are here. One less. " * 2
    texts = [
        run(summarizer(presets["one"], Scribe(lambda *_: said), asked=asked), document(text(30)))[0].text
        for asked in ({"style": "tldr"}, {"style": "tldr", "length": 14})
    ]
    assert texts[0] == "One two three four five. Six seven eight nine ten."
    assert texts[1] == f"{texts[0]} Five more words are here."
    for length in (None, "long"):
        assert 1 <= len(quote(document(text(60)), style="tldr", length=length)[0].sentences) <= 2


@pytest.mark.parametrize(
    ("asked", "size", "words"),
    [
        ({}, None, 307),
        ({}, 1, 30),
        ({}, 90, 30),
        ({}, 105, 35),
        ({}, 5000, 307),
        ({"length": "short"}, 300, 33),
        ({"length": "long"}, 300, 200),
        ({"length": 17}, 5, 17),
        ({"style": "tldr"}, None, 40),
        ({"style": "abstract", "length": "long"}, None, 400),
    ],
)
def test_how_long_a_summary_is(asked, size, words):
    assert target_words(Request(**asked), size=size) == words


def test_a_model_writes_as_much_as_its_preset_says(presets):
    preset = load_preset(presets["three"])
    assert [target_words(Request(), preset, size) for size in (None, 1, 105, 1000)] == [36, 30, 35, 36]
    summary, _ = quote(document(text(20)))
    assert abs(count_words(summary.text) - target_words(Request(), size=summary.plan.words)) <= 10  # within a sentence
