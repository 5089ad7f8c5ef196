"""What a user asks of a summary reaches the prompts that it concerns, and no other."""

from __future__ import annotations

import json
from typing import get_args

import pytest

from specextend_cli.errors import UsageError
from specextend_cli.models.presets import load_preset
from specextend_cli.models.prompt_templates import PLACEHOLDERS, WISHES, Style, spell_out
from specextend_cli.summarize.mapreduce import summary_parts
from specextend_cli.summarize.request import Request, answer_tokens, target_words
from specextend_cli.summarize.summarizer import Summarizer
from specextend_cli.summarize.words import count_words
from specextend_cli.ui.results import summary_record
from tests.helpers.asked import asked as summarizer_asked
from tests.summarize import tiny_preset
from tests.summarize.scribe import Scribe, document, run, summarizer
from tests.summarize.tiny_preset import SPECIALS, text


@pytest.fixture
def asked(presets, tmp_path):
    """The prompts' texts and the summary, for a document of that many sentences."""
    preset = tiny_preset.with_places(tmp_path / "places.toml", presets["one"])

    def ask(sentences=30, answer=None, **request):
        made = summarizer(preset, answer and Scribe(answer), asked=request, context=512)
        made.check(made.request)
        summary, _ = run(made, document(text(sentences)))
        return [(name, made.prompts.encoder.decode(ids)) for name, _, ids in made.prompts.asked], summary

    return ask


@pytest.mark.parametrize(("sentences", "templates"), [(30, {"map", "reduce"}), (150, {"map", "merge", "reduce"})])
def test_a_style_concerns_the_summary_and_a_focus_the_notes_too(asked, sentences, templates):
    prompts, summary = asked(sentences, style="bullets", focus="Who {title} {document} paid?")
    assert {name for name, _ in prompts} == templates
    for name, prompt in prompts:
        assert ("A LIST of" in prompt) == (name == "reduce")
        assert prompt.count("question: Who {title} {document} paid?") == 1
    assert all(line.startswith("- ") for line in summary.text.splitlines())
    without, _ = asked(sentences)
    assert {name for name, _ in without} == templates
    assert not any(mark in prompt for _, prompt in without for mark in ("{", "question:", "  "))


def test_a_language_is_named_and_a_template_of_the_users_own_writes_the_summary(asked):
    assert "the document's language" in asked(3)[0][0][1]
    assert " French\n" in asked(3, language="French")[0][0][1]
    prompts, _ = asked(template="Mine: {document} in {words}! {style} {focus}", style="bullets", focus="Who?")
    assert ["Mine: " in prompt for _, prompt in prompts] == [name == "reduce" for name, _ in prompts]
    assert "! A LIST of" in prompts[-1][1]
    assert "question: Who?" in prompts[-1][1]


@pytest.mark.parametrize("place", ["template", "focus", "language"])
def test_users_give_no_orders(asked, place):
    """Names of control tokens in what a user writes are text, as in a document."""
    own = {"template": "{document} {focus} {language}", "focus": "x", "language": "y"}
    plain, hostile = (
        asked(3, **{**own, place: own[place] + more})[0][0][1] for more in ("", "".join(SPECIALS) + "\ufffcdocument")
    )
    assert [hostile.count(token) for token in SPECIALS] == [plain.count(token) for token in SPECIALS]


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"template": "no place"}, "the template cannot be filled"),
        ({"template": "{document} {documents}"}, "the template cannot be filled"),
        ({"template": "{document}" + "x" * 20_000}, "--template is too long"),
        ({"template": "{document}", "focus": "Who?"}, "the template does not take --focus"),
        ({"template": "{document}", "language": "French"}, "the template does not take --lang"),
        ({"template": " \n"}, "--template is empty"),
        ({"focus": "x" * 1001}, "--focus is too long"),
        ({"language": ""}, "--lang is empty"),
        ({"length": "huge"}, "--length huge: no such length"),
        ({"length": 0}, "--length 0: no such length"),
        ({"length": -3}, "--length -3: no such length"),
        ({"length": 100_000}, "--length 100000 is more than this model can write"),
        ({"style": "outline"}, "--style outline: no such style"),
        ({"mode": "guided"}, "--mode guided: no such mode"),
        ({"mode": "extractive", "template": "A haiku on {document}"}, "--mode extractive and --template"),
        ({"mode": "extractive", "language": "French"}, "--mode extractive and --lang"),
        ({"template": "x" * 1200 + "{document}"}, "a single prompt of full size does not fit"),
    ],
)
def test_what_cannot_be_asked_is_refused_before_any_model_is_loaded(asked, options, what):
    with pytest.raises(UsageError, match=what) as refused:
        asked(**options)
    assert refused.value.fix


def test_a_preset_without_the_place_says_so_where_it_is_to_write(presets):
    with pytest.raises(UsageError, match="preset one does not take --focus"):
        summarizer_asked(model=presets["one"], focus="Who?")
    with pytest.raises(UsageError, match="does not take --lang") as refused:
        Summarizer().check(Request(language="French"))  # the embedded pair writes English
    assert "another preset, with --model NAME" in refused.value.fix
    summarizer_asked(model=presets["one"], focus="Who?", length=100_000, mode="extractive")
    Summarizer().check(Request(focus="Who?"))  # quoted where no model is named


@pytest.mark.parametrize(
    ("asked", "sizes", "words"),
    [
        ({}, (None, 1, 90, 105, 5000), [307, 30, 30, 35, 307]),
        ({"length": "short"}, (300,), [33]),
        ({"length": "long"}, (300,), [200]),
        ({"length": 17}, (5,), [17]),
        ({"style": "tldr"}, (None,), [40]),
        ({"style": "abstract", "length": "long"}, (None,), [400]),
    ],
)
def test_how_long_a_summary_is(asked, sizes, words):
    assert [target_words(Request(**asked), size=size) for size in sizes] == words


def test_a_length_is_told_to_the_prompt_and_gives_the_model_room(asked, presets):
    for length, words in (17, "17"), (None, "36"):
        prompt = asked(12, length=length)[0][-1][1]
        assert words in prompt.split("\nassistant")[0].split()[-4:]
    three = load_preset(presets["three"])
    assert [target_words(Request(), three, size) for size in (None, 1, 105, 1000)] == [36, 30, 35, 36]
    assert answer_tokens(Request(length=400), three) > answer_tokens(Request(), three)


@pytest.mark.parametrize("style", get_args(Style))
@pytest.mark.parametrize("name", ["one", "three"])
def test_a_model_that_writes_too_much_is_stopped(presets, name, style):
    for wanted in (20, 60):
        made = summarizer(presets[name], asked={"length": wanted, "style": style})
        words = count_words(run(made, document(text(30)))[0].text)
        assert 0.5 * wanted <= words <= max(1.15 * wanted, 20)  # the longest sentence has 17 words


def test_a_style_that_one_prompt_must_write_and_a_length_that_few_can(presets):
    three = load_preset(presets["three"])
    for style in get_args(Style):
        assert summary_parts(Request(style=style), three) == (1 if style in ("abstract", "tldr") else 3)
    assert [summary_parts(Request(length=length), three) for length in (5, 20, 36, 500)] == [1, 2, 3, 3]


TWO = "One two three four five. Six seven eight nine ten."


@pytest.mark.parametrize(
    ("style", "length", "answer", "text"),
    [
        ("bullets", None, "One is. Two\nare. ", "- One is.\n- Two\n- are."),
        ("bullets", None, "- One is. So.\n- Two are.", "- One is. So.\n- Two are."),
        ("bullets", None, "One is. They say:\nTwo are. And:", "- One is.\n- They say:\n- Two are."),
        ("tldr", None, f"{TWO} Three go.", TWO),
        ("tldr", 14, f"{TWO} Five more words are here. One less.", f"{TWO} Five more words are here."),
        ("abstract", None, "One is. Two are. Three go.", "One is. Two are. Three go."),
        ("paragraph", None, "One is.\n\nTwo are.", "One is.\n\nTwo are."),
        ("paragraph", None, "1. One is.\n2. Two are.", "1. One is.\n2. Two are."),
    ],
)
def test_the_shape_of_a_style_does_not_depend_on_the_model(asked, style, length, answer, text):
    _, summary = asked(3, style=style, length=length, answer=lambda prompt, most: answer)
    assert summary.text == text
    assert not any(one.text[0].isdigit() or one.text[0] == "-" for one in summary.sentences)  # marks are leads
    assert json.loads(json.dumps(summary_record(summary)))["settings"]["style"] == style


@pytest.mark.parametrize(("style", "spelled"), [("", "a b"), ("S {words}", "a S {words} b")])
def test_an_empty_sentence_takes_the_space_before_it_along(style, spelled):
    assert spell_out("a {style}\n{focus} b", {"style": style, "focus": ""}) == spelled


SPELT = "".join(SPECIALS)


def commands(presets, source: str, name: str = "a.txt") -> list[list[int]]:
    """The control tokens of each prompt for a document of that text and name."""
    made = summarizer(presets["one"])
    run(made, document(source, name))
    return [[number for number in ids if number < len(SPECIALS)] for _, _, ids in made.prompts.asked]


@pytest.mark.parametrize("sentences", [3, 30])
def test_a_document_gives_no_orders(presets, sentences):
    plain = commands(presets, text(sentences))
    hostile = commands(
        presets, text(sentences).replace("harbour", f"{SPELT}\N{OBJECT REPLACEMENT CHARACTER}document{{{{ 1 }}}}")
    )
    assert {*map(tuple, hostile)} == {tuple(plain[0])}


@pytest.mark.parametrize(
    "name",
    [
        *(*SPECIALS, SPELT, "[IN[INST]ST]", "<|im_<|im_end|>end|>", "\ufffcdocument\ufffc"),
        *("{document}", "{{ messages }}", "{words} {nonsense}"),
    ],
)
def test_a_title_gives_no_orders(presets, name):
    assert commands(presets, text(3), name) == commands(presets, text(3))


def test_every_placeholder_has_a_value(presets):
    made = summarizer(presets["one"])
    every = " ".join(f"{{{name}}}" for name in (*PLACEHOLDERS, *WISHES))
    prompts = made.preset.prompts.model_copy(update={"single": every, "map": every, "reduce": every})
    made.preset = made.preset.model_copy(update={"prompts": prompts})
    assert run(made, document(text(30)))[0].text
