"""Answers that answer nothing or go in circles are asked for again, counted, and the same on every run."""

from __future__ import annotations

import json

import pytest

from specextend_cli.engine.events import Step
from specextend_cli.summarize.cached_generator import flaw
from specextend_cli.summarize.events import ChunkSummarized, Part, Retried
from specextend_cli.summarize.text.sentences import Sentences, idle
from specextend_cli.ui.results import summary_record
from tests.helpers.asked import asked
from tests.summarize.scribe import Scribe, document, run, summarizer
from tests.summarize.tiny_preset import text

CIRCLES = "The harbour has a wall and the wall has a harbour, and so " * 4 + "it ends."
GOOD = "The harbour was rebuilt in 1898 by its fishermen."


@pytest.mark.parametrize(
    "sentence",
    [
        "I'm sorry, but I can't help with that.",
        "I’m sorry.",
        "I cannot access the document.",
        "As an AI language model, I have no opinion.",
        "Here is a concise summary of the text above:",
        "**Here are the notes:**",
        "Sure!",
        "Please provide the text you would like me to summarize.",
        "No text was provided.",
        "Summarize the text above in a few sentences.",
        "Let me know if you need more.",
    ],
)
def test_talk_about_answering_is_idle(sentence: str) -> None:
    assert idle(sentence)
    sentences = Sentences()
    out = sentences.add(f"{sentence}\nThe harbour was rebuilt. ") + sentences.finish(whole=False)
    assert out.strip() == "The harbour was rebuilt."


@pytest.mark.parametrize(
    "sentence",
    [
        GOOD,
        "Here are buried the kings of Mercia.",
        "Surely the harbour was rebuilt.",
        "I cannot forget the harbour, he wrote.",
        "No text of the treaty survives.",
        "The text was provided by the council.",
        "Please the king, and he will provide.",
        "As an aide of the mayor, she knew.",
    ],
)
def test_what_only_looks_like_it_is_not(sentence: str) -> None:
    assert not idle(sentence)


@pytest.mark.parametrize(
    ("answer", "limit", "wrong"),
    [
        (GOOD, 60, None),
        ("", 60, "no answer"),
        ("", 1, "no answer"),
        ("Yes.", 60, "no answer"),
        ("Yes.", 10, None),
        (CIRCLES, 60, "in circles"),
        (CIRCLES, 10, None),
        ("na " * 19, 60, None),
        ("", 0, "no answer"),
    ],
)
def test_what_is_wrong_with_an_answer(answer: str, limit: int, wrong: str | None) -> None:
    assert flaw(answer, limit) == wrong


def answers(*texts: str):
    """One after the other, the last for all others."""
    left = list(texts)
    return Scribe(lambda prompt, most: left.pop(0) if len(left) > 1 else left[0])


def test_a_note_is_asked_for_again_and_counted(presets) -> None:
    scribe = answers(GOOD, CIRCLES, "Yes.", GOOD)
    summary, events = run(summarizer(presets["one"], scribe, chunk_summary_tokens=30), document(text(30)))
    assert scribe.attempts == [1, 2]
    told = [event for event in events if isinstance(event, Retried)]
    assert [(one.number, one.level, one.flaw) for one in told] == [(2, 1, "in circles"), (2, 1, "no answer")]
    assert summary.retried == tuple(told)
    assert summary.chunk_summaries == (GOOD,) * 4
    assert [event.number for event in events if isinstance(event, ChunkSummarized)] == [1, 2, 3, 4]
    assert [event.number for event in events if isinstance(event, Part)] == [1, 2, 3, 4, 1]
    assert summary.coverage.complete
    assert json.loads(json.dumps(summary_record(summary)))["model"]["retried"][0]["flaw"] == "in circles"


def test_it_stays_as_it_is_when_no_try_is_better(presets) -> None:
    scribe = answers(CIRCLES)
    summary, _ = run(summarizer(presets["one"], scribe, chunk_summary_tokens=30), document(text(30)))
    assert summary.chunk_summaries == (CIRCLES,) * 4
    assert [one.level for one in summary.retried] == [1] * 8 + [2] * 4  # two more tries each
    assert summary.text == CIRCLES  # what was shown is not taken back


def test_a_summary_that_says_nothing_is_written_again(presets) -> None:
    summary, _ = run(summarizer(presets["one"], answers("", GOOD)), document(text(3)))
    assert (summary.text, [one.flaw for one in summary.retried]) == (GOOD, ["no answer"])


def test_tries_are_kept_too(presets) -> None:
    source = document(text(30))
    first, _ = run(
        summarizer(presets["one"], answers(GOOD, CIRCLES, GOOD), cache=True, chunk_summary_tokens=30), source
    )
    silent = answers("Never asked.")
    again, _ = run(summarizer(presets["one"], silent, cache=True, chunk_summary_tokens=30), source)
    assert (again.text, again.chunk_summaries, again.retried) == (first.text, first.chunk_summaries, first.retried)
    assert not silent.prompts


@pytest.mark.parametrize("batch", [4, pytest.param(1, marks=pytest.mark.full)])
def test_real_models_try_otherwise_and_always_alike(presets, monkeypatch, batch: int) -> None:
    monkeypatch.setattr("specextend_cli.summarize.cached_generator.flaw", lambda text, limit: "in circles")

    def told() -> list:
        with asked(model=presets["one"], cache=False, batch=batch) as made:
            return list(made.run(document(text(30))))

    one, other = told(), told()
    assert len(one[-1].summary.retried) == 8
    tokens = [[token for event in run if isinstance(event, Step) for token in event.tokens] for run in (one, other)]
    assert tokens[0] == tokens[1]
    assert one[-1].summary.text == other[-1].summary.text
    monkeypatch.undo()
    assert told()[-1].summary.text == one[-1].summary.text  # none was better: the first ones stayed
