"""A text that is no longer than its summary is printed as it is, and no model is asked for."""

from __future__ import annotations

import json

import pytest

from specextend_cli.summarize.events import Warned
from specextend_cli.ui.results import format_footer, summary_record
from tests.summarize.scribe import Scribe, document, quote, run, summarizer
from tests.summarize.tiny_preset import text


@pytest.mark.parametrize(
    "source", ["hello world", "Buy milk\nCall the plumber\nReturn the books", "。", "!", "你好，世界。", text(6)]
)
@pytest.mark.parametrize("style", ["paragraph", "abstract"])
@pytest.mark.parametrize("mode", ["extractive", "abstractive"])
def test_a_short_text_is_printed_as_it_is(presets, source, style, mode) -> None:
    made = summarizer(presets["one"], asked={"style": style, "mode": mode, "length": 100})
    made._generator = None
    summary, events = run(made, document(source))
    assert (summary.text, summary.method) == (source, "verbatim")
    assert made._generator is None
    assert summary.coverage.complete
    (message,) = (event.message for event in events if isinstance(event, Warned))
    assert "as it is" in message
    record = json.loads(json.dumps(summary_record(summary)))
    assert (record["mode"], record["warnings"], record["model"]) == ("verbatim", [message], None)
    assert "The source as it is" in format_footer(summary)


@pytest.mark.parametrize(
    ("source", "listed"),
    [
        ("Buy milk\n- Call Ann\nPay the rent", "- Buy milk\n- Call Ann\n- Pay the rent"),
        # Only an item's own mark gives way to the style's.
        (
            "- More is shown in appendix I. a\n2) Golden towers - city of stone",
            "- More is shown in appendix I. a\n- Golden towers - city of stone",
        ),
    ],
)
def test_a_list_has_a_sentence_a_line(source, listed) -> None:
    assert quote(document(source), style="bullets")[0].text == listed


def test_what_needs_a_model_is_written_however_short_the_text(presets) -> None:
    for asked in ({"template": "Translate {document}"}, {"template": "A haiku on {document}", "length": 100}):
        made = summarizer(presets["one"], Scribe(lambda prompt, most: "Salut."), asked=asked)
        summary, _ = run(made, document("hello world"))
        assert (summary.text, summary.method) == ("Salut.", "abstractive")
