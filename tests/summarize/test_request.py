"""What a user asks of a summary reaches the prompts that it concerns, and no other."""

from __future__ import annotations

import json
from typing import get_args

import pytest

from specextend_cli.errors import UsageError
from specextend_cli.models.presets import load_preset
from specextend_cli.models.prompt_templates import Style, spell_out
from specextend_cli.models.tokens import TextEncoder
from specextend_cli.summarize.request import SummaryRequest, SummarySettings
from specextend_cli.summarize.summarizer import Summarizer
from specextend_cli.ui.results import format_event, summary_record
from tests.helpers.flat_options import flat_options
from tests.summarize import tiny_preset
from tests.summarize.scribe import Recorder, Scribe, document, full, run
from tests.summarize.tiny_preset import SPECIALS, text

PLACES = """
[prompts]
system = ""
map = "MAP {document} {focus}"
reduce = "REDUCE {document} {words} {language} {style} {focus}"
single = "SINGLE {document} {words} {language} {style} {focus}"
styles.bullets = "A LIST of {words}."
"""
MAP, FINAL = "MAP", "REDUCE"


@pytest.fixture
def preset(presets, tmp_path):
    """One whose prompts have every place."""
    path = tiny_preset.write(tmp_path / "places.toml")
    words = path.read_text().replace('path = "', f'path = "{presets["one"].parent}/')
    path.write_text(words[: words.index("[prompts]")] + PLACES)
    return path


@pytest.fixture
def asked(preset):
    """The prompts' texts and the summary, for a document of that many sentences."""

    def ask(sentences=30, source="", answer=None, **options):
        made = Summarizer(flat_options(preset=str(preset), cache=False, **options))
        directory = made.preset.target.source.path
        encoder = TextEncoder.of(directory)
        made._prompt_builder = Recorder(made.preset, encoder, directory, request=made.request)
        made._check_prompts()
        made._generator = Scribe(answer or full(encoder))
        summary, events = run(made, document(source or text(sentences)))
        return [(name, encoder.decode(ids)) for name, _, ids in made._prompt_builder.asked], summary, events

    return ask


def test_without_wishes_their_places_vanish(asked):
    prompts, _, _ = asked()
    assert {name for name, _ in prompts} == {"map", "reduce"}
    for _, prompt in prompts:
        assert "{" not in prompt
        assert "question:" not in prompt
        assert "  " not in prompt


def test_a_style_concerns_the_summary_and_a_focus_the_notes_too(asked):
    prompts, summary, _ = asked(style="bullets", focus="Who {title} {document} paid?")
    for name, prompt in prompts:
        assert ("A LIST of" in prompt) == (name == "reduce")
        assert prompt.count("question: Who {title} {document} paid?") == 1
    assert all(line.startswith("- ") for line in summary.text.splitlines())


def test_notes_on_notes_have_no_style(asked):
    prompts, _, _ = asked(150, style="bullets", focus="Who?")
    assert {name for name, _ in prompts} == {"map", "merge", "reduce"}
    assert not any("A LIST" in prompt for name, prompt in prompts if name == "merge")
    assert all("question: Who?" in prompt for _, prompt in prompts)


def test_a_language_is_named(asked):
    assert "the document's language" in asked(3)[0][0][1]
    assert " French\n" in asked(3, language="French")[0][0][1]


def test_a_template_of_the_users_own_writes_the_summary(asked):
    prompts, _, _ = asked(template="Mine: {document} in {words}! {style} {focus}", style="bullets", focus="Who?")
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
        ({"length": 100_000}, "--length 100000 is more than this preset can write"),
        ({"style": "haiku"}, "--style haiku: no such style"),
        ({"template": "x" * 1200 + "{document}"}, "a single prompt of full size does not fit"),
    ],
)
def test_what_cannot_be_asked_is_refused_before_any_model_is_loaded(asked, options, what):
    with pytest.raises(UsageError, match=what) as refused:
        asked(**options)
    assert refused.value.fix


def test_a_preset_without_the_place_says_so(presets):
    with pytest.raises(UsageError, match="preset one does not take --focus"):
        Summarizer(flat_options(preset=str(presets["one"]), focus="Who?"))
    with pytest.raises(UsageError, match="does not take --lang") as refused:
        Summarizer(flat_options(language="French"))  # the embedded pair writes English
    assert "another preset, with --model NAME (specextend presets list)" in refused.value.fix


def test_words_asked_for_by_each_length(asked, preset):
    def budget(**options):
        prompts, summary, _ = asked(12, **options)
        return int(prompts[-1][1].split("\nassistant")[0].split()[-4]), summary

    usual = budget()[0]
    assert budget(length="short")[0] < usual == budget(length="medium")[0] < budget(length="long")[0]
    assert budget(length=17)[0] == 17
    window = load_preset(preset).window
    assert SummaryRequest(length=400).room(window.summary_tokens) > window.summary_tokens
    assert len(budget(length=120)[1].text.split()) > len(budget(length=20)[1].text.split())


def test_a_style_that_one_prompt_must_write(presets):
    three = load_preset(presets["three"])
    assert three.window.summary_parts == 3
    for style in get_args(Style):
        parts = 1 if style in ("abstract", "tldr") else 3
        assert SummarySettings(three, SummaryRequest(style=style)).summary_parts == parts


@pytest.mark.parametrize(
    ("style", "answer", "text"),
    [
        ("bullets", "One is. Two\nare. ", "- One is.\n- Two\n- are."),
        ("bullets", "- One is. So.\n- Two are.", "- One is. So.\n- Two are."),
        ("bullets", "One is. They say:\nTwo are. And:", "- One is.\n- They say:\n- Two are."),
        ("outline", "Prices rose. Rents too. Nobody paid.", "1. Prices rose.\n   - Rents too.\n   - Nobody paid."),
        ("outline", "1. Prices\n   - rose", "1. Prices\n   - rose"),
        ("tldr", "One is. Two are. Three go.", "One is. Two are."),
        ("abstract", "One is. Two are. Three go.", "One is. Two are. Three go."),
        ("paragraph", "One is.\n\nTwo are.", "One is.\n\nTwo are."),
    ],
)
def test_the_shape_of_a_style_does_not_depend_on_the_model(asked, style, answer, text):
    _, summary, events = asked(3, style=style, answer=lambda prompt, most: answer)
    assert summary.text == text
    record = json.loads(format_event(events[-1]))
    assert record["request"] == summary_record(summary)["request"]
    assert record["request"]["style"] == style


def test_an_empty_sentence_takes_the_space_before_it_along():
    assert spell_out("a {style}\n{focus} b", {"style": "", "focus": ""}) == "a b"
    assert spell_out("a {style}\n{focus} b", {"style": "S {words}", "focus": ""}) == "a S {words} b"


def test_a_request_leaves_the_preset_as_it_is(presets):
    made = Summarizer(flat_options(preset=str(presets["three"]), length=5, mode="extractive", style="tldr"))
    assert made.preset == load_preset(presets["three"])
    assert (made.settings.mode, made.settings.summary_parts) == ("extractive", 1)
