"""Chunk summaries of a batch are those that are generated one by one."""

from __future__ import annotations

from functools import cache

import pytest

from specextend_cli.engine.events import Prefilled, Step
from specextend_cli.models.preset import Preset
from specextend_cli.summarize import text_generator
from specextend_cli.summarize.events import ChunkSummarized, Part, Text
from tests.helpers.asked import asked
from tests.summarize.scribe import document

TEXT = " ".join(f"Ship number {n} brought tea and salt to harbour {n % 7}." for n in range(45))


def small(preset: Preset) -> Preset:
    sizes = {"chunk": 100, "chunk_summary_tokens": 30, "summary_tokens": 40}
    return preset.model_copy(update={"window": preset.window.model_copy(update=sizes)})


@cache
def told(path, **options) -> list:
    """The events of a run that is made once for all tests."""
    with asked(model=path, dtype="float32", cache=False, **options) as summarizer:
        summarizer.preset = small(summarizer.preset)
        return list(summarizer.run(document(TEXT)))


def test_the_same_text_with_any_batch(presets) -> None:
    runs = {batch: told(presets["one"], batch=batch) for batch in (1, 8)}
    alone = runs[1][-1].summary
    assert len(alone.chunk_summaries) > 4
    assert not any(event.batch_size > 1 for event in runs[1] if isinstance(event, Step))
    summary = runs[8][-1].summary
    assert (summary.chunk_summaries, summary.text) == (alone.chunk_summaries, alone.text)
    assert max(event.batch_size for event in runs[8] if isinstance(event, Step)) == 8
    assert summary.meter.batched_tokens > 0
    assert summary.coverage.complete


def test_every_part_begins_and_is_summarized_once(presets) -> None:
    events = told(presets["one"], batch=8)
    first = [event.number for event in events if isinstance(event, Part) and event.level == 1]
    summarized = [event.number for event in events if isinstance(event, ChunkSummarized) and event.level == 1]
    assert sorted(first) == sorted(summarized) == list(range(1, len(first) + 1))


def test_text_of_one_chunk_summary_is_shown_at_a_time(presets) -> None:
    """Each piece of text that is shown belongs to one chunk summary."""
    events = told(presets["one"], batch=8)
    summaries = [event.text for event in events if isinstance(event, ChunkSummarized)]
    shown = [event.delta.strip() for event in events if isinstance(event, Text)]
    assert shown
    assert all(any(piece in summary for summary in summaries) for piece in shown)


@pytest.mark.parametrize("chosen", [{"draft": "ngram"}, {"draft_attention": "full"}])
def test_who_chooses_a_draft_gets_it(presets, chosen) -> None:
    events = told(presets["one"], **chosen)
    assert not any(event.batch_size > 1 for event in events if isinstance(event, Step))


def test_what_was_summarized_before_an_interruption_is_kept(presets) -> None:
    path, whole = presets["one"], told(presets["one"], batch=2)[-1].summary
    with asked(model=path, dtype="float32", batch=2) as summarizer:
        summarizer.preset = small(summarizer.preset)
        run = summarizer.run(document(TEXT))
        while not isinstance(next(run), ChunkSummarized):
            pass
        run.close()
    with asked(model=path, dtype="float32", batch=2) as summarizer:
        summarizer.preset = small(summarizer.preset)
        resumed = list(summarizer.run(document(TEXT)))
    reused = [event.reused for event in resumed if isinstance(event, ChunkSummarized) and event.level == 1]
    assert sorted(reused) == [False] * (len(reused) - 1) + [True]
    assert (resumed[-1].summary.chunk_summaries, resumed[-1].summary.text) == (whole.chunk_summaries, whole.text)


def test_stopped_in_the_middle_of_a_batch_what_was_finished_is_kept(presets, monkeypatch) -> None:
    """On a slow machine a batch takes minutes: it is written in smaller ones, and the text is the same."""
    path, whole = presets["one"], told(presets["one"], batch=8)[-1].summary
    monkeypatch.setattr(text_generator, "_PATIENCE", 0.0)
    chunks = len(whole.plan.chunks)
    assert chunks > 8

    def summarize(until: int) -> list:
        events = []
        with asked(model=path, dtype="float32", batch=16) as summarizer:
            summarizer.preset = small(summarizer.preset)
            run = summarizer.run(document(TEXT))
            for event in run:
                events.append(event)
                if sum(isinstance(event, Prefilled) for event in events) == until:
                    run.close()
        return events

    stopped = summarize(chunks - 1)  # all of them but one were read
    kept = {event.number for event in stopped if isinstance(event, ChunkSummarized)}
    assert len(kept) >= chunks // 2
    resumed = summarize(-1)
    assert {event.number for event in resumed if isinstance(event, ChunkSummarized) and event.reused} >= kept
    parts = [event for event in resumed if isinstance(event, Part)]
    first = [part.reused for part in parts if part.level == 1]
    assert (len(first), sum(first)) == (chunks, resumed[-1].summary.reused)
    assert first == sorted(first, reverse=True)  # the stored ones come first
    assert parts[-1].final
    assert (resumed[-1].summary.chunk_summaries, resumed[-1].summary.text) == (whole.chunk_summaries, whole.text)
