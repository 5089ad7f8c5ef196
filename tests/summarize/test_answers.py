"""Answers are generated alike alone and in batches, kept when a run stops, and retried where they say nothing."""

from __future__ import annotations

from functools import cache

import pytest

from specextend_cli.engine.events import Accepted, Prefilled
from specextend_cli.models.preset import Preset
from specextend_cli.summarize import writer
from specextend_cli.summarize.answers import flaw
from specextend_cli.summarize.events import ChunkSummarized, Part, Retried, Text
from specextend_cli.summarize.sentences import Sentences, idle
from specextend_cli.ui.results import summary_record
from tests.helpers.asked import asked
from tests.summarize.scribe import Scribe, document, run, summarizer
from tests.summarize.tiny_preset import text

CIRCLES = "The harbour has a wall and the wall has a harbour, and so " * 4 + "it ends."
GOOD = "The harbour was rebuilt in 1898 by its fishermen."
SHIPS = document(" ".join(f"Ship number {n} brought tea and salt to harbour {n % 7}." for n in range(45)))


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        ("I'm sorry, but I can't help with that.", True),
        ("I’m sorry.", True),
        ("I cannot access the document.", True),
        ("As an AI language model, I have no opinion.", True),
        ("Here is a concise summary of the text above:", True),
        ("**Here are the notes:**", True),
        ("Sure!", True),
        ("Please provide the text you would like me to summarize.", True),
        ("No text was provided.", True),
        ("Summarize the text above in a few sentences.", True),
        ("Let me know if you need more.", True),
        (GOOD, False),
        ("Here are buried the kings of Mercia.", False),
        ("Surely the harbour was rebuilt.", False),
        ("I cannot forget the harbour, he wrote.", False),
        ("No text of the treaty survives.", False),
        ("The text was provided by the council.", False),
        ("Please the king, and he will provide.", False),
        ("As an aide of the mayor, she knew.", False),
    ],
)
def test_talk_about_answering_is_left_out(sentence: str, expected: bool) -> None:
    assert idle(sentence) is expected
    sentences = Sentences()
    out = sentences.add(f"{sentence}\nIt was so. ") + sentences.finish(whole=False)
    assert out.split("\n")[-1].strip() == "It was so."
    assert (sentence in out) is not expected


@pytest.mark.parametrize(
    ("answer", "limit", "wrong"),
    [
        (GOOD, 60, None),
        ("", 60, "no answer"),
        ("", 0, "no answer"),
        ("Yes.", 60, "no answer"),
        ("Yes.", 10, None),
        (CIRCLES, 60, "in circles"),
        (CIRCLES, 10, None),
        ("na " * 19, 60, None),
    ],
)
def test_what_is_wrong_with_an_answer(answer: str, limit: int, wrong: str | None) -> None:
    assert flaw(answer, limit) == wrong


def answers(*texts: str):
    """One after the other, the last for all others."""
    left = list(texts)
    return Scribe(lambda prompt, most: left.pop(0) if len(left) > 1 else left[0])


def test_a_chunk_summary_is_retried_counted_and_kept(presets) -> None:
    scribe, source = answers(GOOD, CIRCLES, "Yes.", GOOD), document(text(30))
    summary, events = run(summarizer(presets["one"], scribe, cache=True, chunk_summary_tokens=30), source)
    assert scribe.attempts == [1, 2]
    told = [event for event in events if isinstance(event, Retried)]
    assert [(one.number, one.level, one.flaw) for one in told] == [(2, 1, "in circles"), (2, 1, "no answer")]
    assert summary.retried == tuple(told)
    assert summary.chunk_summaries == (GOOD,) * 4
    assert [event.number for event in events if isinstance(event, ChunkSummarized)] == [1, 2, 3, 4]
    assert [event.number for event in events if isinstance(event, Part)] == [1, 2, 3, 4, 1]
    assert summary.coverage.complete
    assert summary_record(summary)["model"]["retried"][0]["flaw"] == "in circles"
    silent = answers("Never asked.")
    again, _ = run(summarizer(presets["one"], silent, cache=True, chunk_summary_tokens=30), source)
    assert (again.text, again.chunk_summaries, again.retried) == (
        summary.text,
        summary.chunk_summaries,
        summary.retried,
    )
    assert not silent.prompts


def test_it_stays_as_it_is_when_no_retry_is_better(presets) -> None:
    summary, _ = run(summarizer(presets["one"], answers(CIRCLES), chunk_summary_tokens=30), document(text(30)))
    assert summary.chunk_summaries == (CIRCLES,) * 4
    assert [one.level for one in summary.retried] == [1] * 8 + [2] * 4  # two more tries each
    assert summary.text == CIRCLES  # what was shown is not taken back


def test_a_summary_that_says_nothing_is_written_again(presets) -> None:
    summary, _ = run(summarizer(presets["one"], answers("", GOOD)), document(text(3)))
    assert (summary.text, [one.flaw for one in summary.retried]) == (GOOD, ["no answer"])


@pytest.mark.parametrize("batch", [4, pytest.param(1, marks=pytest.mark.full)])
def test_real_models_retry_otherwise_and_always_alike(presets, monkeypatch, batch: int) -> None:
    monkeypatch.setattr("specextend_cli.summarize.answers.flaw", lambda text, limit: "in circles")

    def retried() -> list:
        with asked(model=presets["one"], cache=False, batch=batch) as made:
            return list(made.run(document(text(30))))

    one, other = retried(), retried()
    assert len(one[-1].summary.retried) == 8
    tokens = [[token for event in run if isinstance(event, Accepted) for token in event.tokens] for run in (one, other)]
    assert tokens[0] == tokens[1]
    assert one[-1].summary.text == other[-1].summary.text
    monkeypatch.undo()
    assert retried()[-1].summary.text == one[-1].summary.text  # none was better: the first ones stayed


# ------------------------------------------------------------------------------------------------------------- batches


def small(preset: Preset) -> Preset:
    sizes = {"chunk": 100, "chunk_summary_tokens": 30, "summary_tokens": 40}
    return preset.model_copy(update={"window": preset.window.model_copy(update=sizes)})


def stopped(path, until, *, cache: bool = True, **options) -> list:
    """The events of a run that is stopped as soon as `until` says so of them."""
    events = []
    with asked(model=path, dtype="float32", cache=cache, **options) as made:
        made.preset = small(made.preset)
        run = made.run(SHIPS)
        for event in run:
            events.append(event)
            if until(events):
                run.close()
    return events


@cache
def told(path, **options) -> list:
    """The events of a whole run, which is made once for all tests."""
    return stopped(path, lambda events: False, cache=False, **options)


def test_a_batch_writes_the_same_text_and_shows_one_chunk_summary_at_a_time(presets) -> None:
    runs = {batch: told(presets["one"], batch=batch) for batch in (1, 8)}
    alone, summary = runs[1][-1].summary, runs[8][-1].summary
    assert len(alone.chunk_summaries) > 4
    assert (summary.chunk_summaries, summary.text) == (alone.chunk_summaries, alone.text)
    sizes = [{event.batch_size for event in events if isinstance(event, Accepted)} for events in runs.values()]
    assert (max(sizes[0]), max(sizes[1])) == (1, 8)
    assert summary.meter.batched_tokens > 0
    assert summary.coverage.complete
    begun = [event.number for event in runs[8] if isinstance(event, Part) and event.level == 1]
    done = [event for event in runs[8] if isinstance(event, ChunkSummarized)]
    assert sorted(begun) == sorted(event.number for event in done if event.level == 1) == list(range(1, len(begun) + 1))
    shown = [event.delta.strip() for event in runs[8] if isinstance(event, Text)]
    assert shown
    assert all(any(piece in event.text for event in done) for piece in shown)


@pytest.mark.parametrize("chosen", [{"draft": "ngram"}, {"draft_attention": "full"}])
def test_who_chooses_a_draft_gets_it(presets, chosen) -> None:
    assert not any(event.batch_size > 1 for event in told(presets["one"], **chosen) if isinstance(event, Accepted))


@pytest.mark.parametrize("where", ["after one", "in a batch"])
def test_what_was_summarized_before_an_interruption_is_kept(presets, monkeypatch, where: str) -> None:
    """On a slow machine a batch takes minutes: it is written in smaller ones, and the text is the same."""
    path, whole = presets["one"], told(presets["one"], batch=8)[-1].summary
    chunks = len(whole.plan.chunks)
    assert chunks > 8

    def one_is_done(events: list) -> bool:
        return isinstance(events[-1], ChunkSummarized)

    def most_are_read(events: list) -> bool:
        return sum(isinstance(event, Prefilled) for event in events) == chunks - 1

    if where == "in a batch":
        monkeypatch.setattr(writer, "_PATIENCE", 0.0)
    batch, until, least = (16, most_are_read, chunks // 2) if where == "in a batch" else (2, one_is_done, 1)
    begun = stopped(path, until, batch=batch)
    kept = {event.number for event in begun if isinstance(event, ChunkSummarized)}
    assert len(kept) >= least
    resumed = stopped(path, lambda events: False, batch=batch)
    assert {event.number for event in resumed if isinstance(event, ChunkSummarized) and event.reused} >= kept
    parts, last = [event for event in resumed if isinstance(event, Part)], resumed[-1].summary
    first = [part.reused for part in parts if part.level == 1]
    assert (len(first), sum(first)) == (chunks, last.reused)
    assert first == sorted(first, reverse=True)  # the stored ones come first
    assert parts[-1].final
    assert (last.chunk_summaries, last.text) == (whole.chunk_summaries, whole.text)
