"""Summaries of a document's own sentences, without a model; and who gets a model's."""

from __future__ import annotations

import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specextend_cli.documents.document import Document
from specextend_cli.documents.read import read_bytes
from specextend_cli.models.preset import DEFAULT
from specextend_cli.models.presets import load_preset
from specextend_cli.runtime.options import Engine
from specextend_cli.summarize import writer as module
from specextend_cli.summarize.events import Part, Sentence, Summary, Text, Warned
from specextend_cli.summarize.ranking.candidates import candidates, speakers
from specextend_cli.summarize.request import Request
from specextend_cli.summarize.summarizer import Summarizer
from specextend_cli.summarize.words import count_words
from specextend_cli.ui.results import format_footer, summary_record
from tests.summarize.examples import COUNCIL, HARBOUR
from tests.summarize.scribe import Scribe, document, quote, run, summarizer
from tests.summarize.tiny_preset import text

TEXT = " ".join(HARBOUR)
STYLES = ("paragraph", "bullets", "abstract", "tldr")
SCRIPTS = {
    "Latin": ("rain fall over town river bank wall stone mayor said water rose night", " ", ". "),
    "Cyrillic": ("река вода город дождь мост камень ночь берег стена мэр сказал", " ", ". "),
    "Devanagari": ("नदी पानी गाँव सरकार योजना किसान वर्षा तालाब", " ", "। "),
    "Arabic": ("نهر ماء مدينة مطر جسر حجر ليل", " ", "؟ "),
    "Han": ("河 水 城 雨 桥 石 夜 岸 墙 说 人 民 年", "", "。"),
    "Thai": ("แม่น้ำ น้ำท่วม เมือง ฝน สะพาน หิน กลางคืน", "", " "),
}
CONVERSATION = "\n\n".join(
    f"{('Ann Lee', 'Bob', 'Dr. Cox')[n % 3]}: Well, yes, I see. {line} Number {n} was read aloud by the chair."
    for n, line in enumerate(COUNCIL[:20])
)


def prose(script: str, sentences: int, longest: int, seed: int) -> str:
    """Sentences of random lengths, in paragraphs."""
    words, gap, stop = SCRIPTS[script]
    order = random.Random(seed)
    sizes = [order.randint(3, longest) for _ in range(sentences)]
    made = [gap.join(order.choices(words.split(), k=size)).capitalize() + stop for size in sizes]
    return "\n\n".join("".join(made[at : at + 4]).strip() for at in range(0, sentences, 4))


def squeezed(text: str) -> str:
    return "".join(text.split()).lower()


def assert_quoted(summary: Summary, source: Document) -> None:
    """Every sentence is where its citation says, but for white space, a list's mark, a connective and a capital."""
    assert summary.sentences
    places = []
    for one in summary.sentences:
        (citation,) = one.citations
        assert squeezed(one.text.rstrip("….")) in squeezed(source.text[citation.start : citation.end])
        places.append(citation.start)
    assert places == sorted(set(places))


def test_sentences_cite_themselves_and_no_model_is_spoken_of() -> None:
    source = document(TEXT)
    summary, events = quote(source, length=24)
    assert summary.method == "extractive"
    assert_quoted(summary, source)
    assert not summary.unsupported
    assert [event for event in events if isinstance(event, Sentence)] == list(summary.sentences)
    assert "".join(event.lead + event.text for event in events if isinstance(event, Sentence)) == summary.text
    assert not any(isinstance(event, (Part, Text)) for event in events)
    assert (summary.plan.chunks, summary.plan.words, summary.drafter) == ((), count_words(TEXT), "none")
    assert summary.meter.tokens == summary.meter.prompt_tokens == 0
    assert summary.coverage.complete
    assert json.loads(json.dumps(summary_record(summary)))["mode"] == "extractive"
    assert "Sentences of the source, chosen without a model" in format_footer(summary)


@pytest.mark.parametrize(
    ("source", "length", "never"),
    [
        ("\n".join(f"| {n} | wool and herring | {n * 7} |" for n in range(200)) + f"\n\n{text(6)}", 40, ("|",)),
        ("\n".join(f"- However, {one}" for one in COUNCIL[:4]), 38, ("However", "- ")),
        (f"Orders may be placed by calling (202) 512-6000 or by fax. {' '.join(COUNCIL[:20])}", 150, ("512-6000",)),
        (" ".join(HARBOUR[2:4] * 3) + " The bridge of Falcaster is the longest.", 29, ()),
    ],
)
def test_what_is_printed_are_sentences_of_the_text_each_once(source: str, length: int, never: tuple[str, ...]) -> None:
    summary, _ = quote(document(source), length=length)
    assert_quoted(summary, document(source))
    said = [one.text for one in summary.sentences]
    assert len(said) == len(set(said)) > 1
    assert not any(one in summary.text for one in never)


@settings(max_examples=30, deadline=None)
@given(
    st.sampled_from(sorted(SCRIPTS)),
    st.sampled_from(STYLES),
    st.sampled_from((20, 33, 50, 100, 200, 500, 2000)),
    st.sampled_from((20, 30, 45)),
    st.integers(0, 1000),
)
def test_any_number_of_words_is_met_in_any_style(script: str, style: str, wanted: int, longest: int, seed: int) -> None:
    source = document(prose(script, 150, longest, seed))
    summary, _ = quote(source, length=wanted, style=style)
    assert_quoted(summary, source)
    lines = summary.text.split("\n")
    assert all(line.startswith("- ") == (style == "bullets") for line in lines if line)
    assert style != "bullets" or len(lines) == len(summary.sentences)
    assert script != "Han" or style != "abstract" or " " not in summary.text
    least = 0.85 * wanted if summary.method == "extractive" else 0
    assert least <= count_words(summary.text) <= 1.15 * wanted


@settings(max_examples=25, deadline=None)
@given(
    st.text("ab 。.!\n-水ไ\u0301\u0964🙂(\"'•", min_size=1, max_size=200).filter(str.strip),
    st.integers(5, 60),
    st.sampled_from(STYLES),
)
def test_no_text_is_too_odd(source: str, wanted: int, style: str) -> None:
    summary, _ = quote(document(source), length=wanted, style=style)
    assert summary.text
    assert summary.method in ("extractive", "lead", "verbatim")


@pytest.mark.parametrize("size", [4, 2])
def test_another_paragraph_begins_in_another_section_after_three_sentences(size: int) -> None:
    source = "\n\n# Prices\n\n".join(" ".join(COUNCIL[at : at + size]) for at in range(0, 12, size))
    paragraphs = quote(read_bytes("a.md", source.encode()), length=160)[0].text.split("\n\n")
    assert len(paragraphs) > 1
    assert all(paragraph.count("The ") >= 3 for paragraph in paragraphs[:-1])


@pytest.mark.parametrize("length", [None, "long"])
def test_a_tldr_has_two_sentences_at_most(length: str | None) -> None:
    assert 1 <= len(quote(document(text(60)), style="tldr", length=length)[0].sentences) <= 2


@pytest.mark.parametrize(
    "source",
    [
        "\n".join(f"| {n} | the harbour of the town | {n * 7} |" for n in range(40)),
        "rain " * 400,
        "```\n" + "print(harbour)\n" * 60 + "```",
    ],
)
def test_where_nothing_can_be_quoted_the_document_begins_and_says_so(source: str) -> None:
    summary, events = quote(document(source), length=36)
    assert squeezed(source).removeprefix("```").startswith(squeezed(summary.text.rstrip("…")))
    assert 20 < count_words(summary.text) <= 40
    (warning,) = [event.message for event in events if isinstance(event, Warned)]
    assert "first" in warning
    record = summary_record(summary)
    assert (summary.method, record["mode"], record["warnings"]) == ("lead", "lead", [warning])
    assert "first sentences of the source" in format_footer(summary)


@pytest.mark.parametrize(
    ("body", "talks"),
    [
        (CONVERSATION, True),
        ("\n\n".join(f"{'记者馆长'[n % 2 * 2 :][:2]}：今年九月一日起居民可以使用新馆。" for n in range(6)), True),
        ("\n\n".join(f"Ann: {line}\n\nWho goes?\n\nBob: {line}" for line in HARBOUR), True),
        (text(60), False),
        # Labels before a colon that are no speakers: each stands once, or there is only one, or they decide.
        ("\n\n".join(f"Note: {line}" for line in HARBOUR * 3), False),
        ("\n\n".join(f"Label{n}: {line}" for n, line in enumerate(HARBOUR * 3)), False),
        ("\n\n".join(f"{('Decision', 'Action')[n % 2]}: {line}" for n, line in enumerate(HARBOUR)), False),
    ],
)
def test_a_conversation_has_speakers_who_speak_more_than_once(body: str, talks: bool) -> None:
    source = read_bytes("a.md", body.encode())
    assert bool(speakers(source.text, candidates(source))) == talks


def test_a_list_names_speakers_and_a_paragraph_does_not() -> None:
    source = read_bytes("a.md", CONVERSATION.encode())
    listed, _ = quote(source, length=60, style="bullets")
    assert all(line.startswith(("- Ann Lee: ", "- Bob: ", "- Dr. Cox: ")) for line in listed.text.split("\n"))
    assert all(one.text in " ".join(CONVERSATION.split()) for one in listed.sentences)
    assert abs(count_words(listed.text) - 60) <= 9
    assert "- " not in quote(source, length=60)[0].text


@pytest.mark.parametrize(
    ("source", "style", "shown"),
    [
        *(
            (one, "abstract", one)
            for one in ("hello world", "Buy milk\nReturn the books", "。", "!", "你好，世界。", text(6))
        ),
        ("Buy milk\n- Call Ann\nPay the rent", "bullets", "- Buy milk\n- Call Ann\n- Pay the rent"),
        # Only an item's own mark gives way to the style's.
        ("- In appendix I. a\n2) Golden towers - stone", "bullets", "- In appendix I. a\n- Golden towers - stone"),
    ],
)
@pytest.mark.parametrize("mode", ["extractive", "abstractive"])
def test_a_short_text_is_printed_as_it_is_without_a_model(presets, source: str, style: str, shown: str, mode) -> None:
    made = summarizer(presets["one"], asked={"length": 100, "style": style, "mode": mode})
    made._generator = None
    summary, events = run(made, document(source))
    assert (summary.text, summary.method, made._generator) == (shown, "verbatim", None)
    assert summary.coverage.complete
    (message,) = (event.message for event in events if isinstance(event, Warned))
    assert "as it is" in message
    record = json.loads(json.dumps(summary_record(summary)))
    assert (record["mode"], record["warnings"], record["model"]) == ("verbatim", [message], None)
    assert "The source as it is" in format_footer(summary)


@pytest.mark.parametrize(
    ("source", "asked"),
    [
        (TEXT, {"template": "A haiku on {document}"}),
        (TEXT, {"mode": "abstractive"}),
        (TEXT, {}),
        ("hello world", {"template": "A haiku on {document}", "length": 100}),
    ],
)
def test_who_names_a_model_gets_its_words(presets, source: str, asked) -> None:
    words = "Wool is sold on the market on Saturdays."
    made = summarizer(presets["one"], Scribe(lambda prompt, most: words), asked=asked)
    summary, _ = run(made, document(source))
    assert (summary.text, summary.warnings, summary.method) == (words, (), "abstractive")
    assert "Written by one" in format_footer(summary)
    made.preset = made.preset.model_copy(update={"unreliable": True})
    (warning,) = run(made, document(source))[0].warnings
    assert "check them; --mode extractive" in warning
    assert load_preset(DEFAULT).unreliable


def test_one_summarizer_quotes_and_writes_and_loads_its_model_once(presets, monkeypatch) -> None:
    loads, load = [], module.load_writer
    monkeypatch.setattr(module, "load_writer", lambda *given, **named: loads.append(given) or load(*given, **named))
    source, made = document(text(30)), Summarizer(Engine(model=str(presets["one"])), cache=False)
    asked = [{"mode": "extractive"}, {}, {"length": 20}, {"mode": "extractive", "style": "bullets"}, {}]
    quoted, first, short, listed, again = (made.summarize(source, Request(**one)) for one in asked)
    assert [one.method for one in (quoted, first, listed, short)] == ["extractive", "abstractive"] * 2
    assert (listed.text[:2], again.text) == ("- ", first.text)
    assert short.text != first.text
    assert len(loads) == 1
