"""Summaries of a document's own sentences, without a model."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest

from specextend_cli.documents.read import read_bytes
from specextend_cli.models.preset import DEFAULT
from specextend_cli.models.presets import load_preset
from specextend_cli.runtime.options import Engine
from specextend_cli.summarize.events import Part, Sentence, Text, Warned
from specextend_cli.summarize.request import Request
from specextend_cli.summarize.summarizer import Summarizer
from specextend_cli.summarize.words import count_words
from specextend_cli.ui.results import format_footer, summary_record
from tests import ROOT
from tests.summarize.scribe import Scribe, document, quote, run, summarizer
from tests.summarize.tiny_preset import text

SENTENCES = [
    "The harbour of Falcaster was founded by fishermen in 1871.",
    "It was closed in the winter of 1893 after a storm.",
    "The council of Falcaster bought the railway station for 2,925 crowns.",
    "Wool and herring were sold on the market on most Saturdays.",
    "However, the council of Falcaster sold the railway station again in 1902.",
]
TEXT = " ".join(SENTENCES)
GERMAN = """\
Der Hafen von Falkenstein wurde 1871 von Fischern gegründet. Im Winter 1893 zerstörte ein Sturm die äußere Mole. \
„Niemand weiß, warum der Wächter ging“, sagte der alte Bürgermeister. Der Rat kaufte den Bahnhof für 2.925 Kronen. \
Wolle und Heringe wurden samstags auf dem großen Markt verkauft. Die neue Brücke kostete mehr als alle anderen zusammen.
"""


def squeezed(text: str) -> str:
    return "".join(text.split()).lower()


def assert_quoted(summary, source) -> None:
    """Every sentence is where its citation says, but for white space, a list's mark, a connective and a capital."""
    assert summary.sentences
    places = []
    for one in summary.sentences:
        (citation,) = one.citations
        said = squeezed(one.text.rstrip("…."))
        assert said in squeezed(source.text[citation.start : citation.end])
        places.append(citation.start)
    assert places == sorted(places)


def test_sentences_cite_themselves_in_the_documents_order() -> None:
    source = document(TEXT)
    summary, events = quote(source, length=24)
    assert summary.method == "extractive"
    assert_quoted(summary, source)
    assert not summary.unsupported
    assert [event for event in events if isinstance(event, Sentence)] == list(summary.sentences)
    assert "".join(event.lead + event.text for event in events if isinstance(event, Sentence)) == summary.text
    assert not any(isinstance(event, (Part, Text)) for event in events)
    assert (summary.plan.chunks, summary.plan.words) == ((), count_words(TEXT))
    assert summary.drafter == "none"
    assert summary.meter.tokens == summary.meter.prompt_tokens == 0
    assert summary.coverage.complete
    assert json.loads(json.dumps(summary_record(summary)))["mode"] == "extractive"
    assert "Sentences of the source, chosen without a model" in format_footer(summary)


def test_the_whole_document_is_chosen_from() -> None:
    table = "\n".join(f"| {n} | wool and herring | {n * 7} |" for n in range(200))
    source = document(f"{table}\n\n{text(6)}")
    summary, _ = quote(source, length=40)
    assert summary.method == "extractive"
    assert_quoted(summary, source)
    assert all(one.citations[0].start > len(table) for one in summary.sentences)


def test_nothing_is_said_twice() -> None:
    source = " ".join([*SENTENCES[2:4], *SENTENCES[2:4], *SENTENCES[2:4], "The bridge of Falcaster is the longest."])
    summary, _ = quote(document(source), length=29)
    said = [one.text for one in summary.sentences]
    assert len(said) == len(set(said)) == 3


def test_connectives_and_marks_are_not_printed() -> None:
    source = document("\n".join(f"- {one}" for one in (SENTENCES[0], *SENTENCES[2:])))
    summary, _ = quote(source, length=38)
    assert "However" not in summary.text
    assert "-" not in summary.text
    assert "The council of Falcaster sold the railway station again" in summary.text
    assert_quoted(summary, source)


def test_what_calls_for_the_publisher_is_not_printed() -> None:
    contact = "Orders for the report may be placed by calling (202) 512-6000 or by fax to the harbour."
    source = document(f"{contact} {text(20)} {contact}")
    summary, _ = quote(source, length=150)
    assert "512-6000" not in summary.text


@pytest.mark.parametrize(("style", "mark"), [("bullets", "- "), ("paragraph", "")])
def test_a_style_has_its_shape(style: str, mark: str) -> None:
    summary, _ = quote(document(TEXT), style=style, length=24)
    lines = summary.text.split("\n")
    assert len(lines) == (1 if style == "paragraph" else len(summary.sentences))
    assert all(re.match(f"{mark}[A-Z]", line) for line in lines)


@pytest.mark.parametrize("style", ["paragraph", "bullets", "tldr", "abstract"])
def test_german_sentences(style: str) -> None:
    source = read_bytes("a.txt", GERMAN.encode())
    summary, _ = quote(source, style=style, length=20)
    assert summary.method == "extractive"
    assert_quoted(summary, source)
    why = "are ranked by fewer rules, which were fitted to English: important ones may be missing"
    assert summary.warnings == (f"sentences in German {why}",)


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
    assert summary.method == "lead"
    assert squeezed(source).removeprefix("```").startswith(squeezed(summary.text.rstrip("…")))
    assert 20 < count_words(summary.text) <= 40
    (warning,) = [event.message for event in events if isinstance(event, Warned)]
    assert "first" in warning
    record = summary_record(summary)
    assert (record["mode"], record["warnings"]) == ("lead", [warning])
    assert "first sentences of the source" in format_footer(summary)


def test_the_same_text_at_every_run() -> None:
    first, second = (quote(document(text(60)))[0].text for _ in range(2))
    assert first == second


@pytest.mark.parametrize("asked", [{"template": "A haiku on {document}"}, {"mode": "abstractive"}, {}])
def test_who_names_a_model_gets_its_words(presets, asked) -> None:
    words = "Wool is sold on the market on Saturdays."
    made = summarizer(presets["one"], Scribe(lambda prompt, most: words), asked=asked)
    summary, _ = run(made, document(TEXT))
    assert (summary.text, summary.warnings) == (words, ())
    assert "Written by one" in format_footer(summary)
    made.preset = made.preset.model_copy(update={"unreliable": True})
    (warning,) = run(made, document(TEXT))[0].warnings
    assert "check them; --mode extractive" in warning
    assert load_preset(DEFAULT).unreliable


def test_one_summarizer_quotes_and_writes_and_loads_its_model_once(presets, monkeypatch) -> None:
    loads, load = [], Summarizer._load
    monkeypatch.setattr(Summarizer, "_load", lambda self: loads.append(self) or load(self))
    source, made = document(text(30)), Summarizer(Engine(model=str(presets["one"])), cache=False)
    asked = [{"mode": "extractive"}, {}, {"length": 20}, {"mode": "extractive", "style": "bullets"}, {}]
    quoted, first, short, listed, again = (made.summarize(source, Request(**one)) for one in asked)
    assert [one.method for one in (quoted, first, listed, short)] == ["extractive", "abstractive"] * 2
    assert (listed.text[:2], again.text) == ("- ", first.text)
    assert short.text != first.text
    assert len(loads) == 1


def test_no_model_is_needed_and_none_of_its_libraries(tmp_path) -> None:
    (tmp_path / "a.txt").write_text(text(40))
    code = (
        "import sys\n"
        "from specextend_cli import Summarizer\n"
        "with Summarizer() as made:\n"
        f"    summary = made.summarize({str(tmp_path / 'a.txt')!r})\n"
        "assert summary.method == 'extractive' and summary.text\n"
        "assert not {'torch', 'transformers', 'lightgbm', 'sklearn'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)
