"""Sentences ranked with the help of the target's hidden states: read in chunks, kept, and never read twice."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch

from specextend_cli.engine.events import Prefilled, Step
from specextend_cli.errors import ModelError
from specextend_cli.summarize.events import ChunkRead, Event, Level, Part, Plan, Preview, Summary, Text
from specextend_cli.summarize.ranking.candidates import candidates
from specextend_cli.summarize.ranking.ranker import ReadingPlan, read_states
from specextend_cli.summarize.summarizer import Options, Summarizer
from tests.helpers.flat_options import flat_options
from tests.summarize.scribe import document
from tests.summarize.tiny_preset import LAYER, guided, text

LONG = text(30)


@pytest.fixture
def preset(presets) -> Path:
    return guided(presets["one"].parent)


def summarize(path: Path, source: str = LONG, **options) -> tuple[Summary, list[Event]]:
    with Summarizer(flat_options(preset=str(path), **options)) as made:
        events = list(made.run(document(source)))
    return events[-1].summary, events


def read(events: list[Event]) -> list[ChunkRead]:
    return [event for event in events if isinstance(event, ChunkRead)]


def test_a_document_is_read_in_chunks_and_quoted(preset) -> None:
    summary, events = summarize(preset)
    assert summary.method == "guided"
    assert summary.drafter == "none"
    (plan,) = [event for event in events if isinstance(event, Plan)]
    count = len(plan.chunks)
    assert count > 3
    assert [event.number for event in read(events)] == list(range(1, count + 1))
    assert not any(event.reused for event in read(events))
    assert sum(isinstance(event, Prefilled) for event in events) == count
    assert sum(event.tokens for event in events if isinstance(event, Part)) == plan.tokens == sum(plan.chunks)
    assert summary.meter.prompt_tokens == plan.work[0].read
    assert not [event for event in events if isinstance(event, (Step, Level))]
    assert summary.coverage.complete
    for one in summary.sentences:
        (citation,) = one.citations
        assert one.text in LONG[citation.start : citation.end]
    assert "".join(event.delta for event in events if isinstance(event, Text)) == summary.text


def test_the_extractive_summary_is_shown_before_anything_is_fetched_or_read(preset, monkeypatch) -> None:
    expected = summarize(preset, mode="extractive", style="bullets")[0].text
    monkeypatch.setattr("specextend_cli.summarize.summarizer.fetch", lambda *_, **__: pytest.fail("fetched"))
    with Summarizer(flat_options(preset=str(preset), style="bullets")) as made:
        first = next(made.run(document(LONG)))
    assert first == Preview(expected)


@pytest.mark.parametrize("how", [{"mode": "extractive"}, {"mode": "abstractive"}, {"source": text(1)}])
def test_a_first_extract_is_of_guided_summaries_that_are_shorter_than_their_document(preset, how) -> None:
    assert not [event for event in summarize(preset, **how)[1] if isinstance(event, Preview)]


def test_a_plan_ranks_nothing(preset, monkeypatch) -> None:
    monkeypatch.setattr("specextend_cli.summarize.extractive.features", lambda *_: pytest.fail("ranked"))
    with Summarizer(Options(preset=str(preset))) as made:
        assert len(made.plan(document(LONG)).chunks) > 3


def test_the_states_have_a_say(presets, preset) -> None:
    texts = {summarize(preset, cache=False)[0].text}
    for seed in range(4):
        weights = np.random.default_rng(seed + 1).normal(0, 5, 64).tolist()
        texts.add(summarize(guided(presets["one"].parent, weights=weights), cache=False)[0].text)
    assert len(texts) > 1


def test_without_weights_the_trees_decide(presets) -> None:
    path = guided(presets["one"].parent, weights=[0.0] * 64)
    assert summarize(path)[0].text == summarize(path, mode="extractive")[0].text


@pytest.mark.parametrize("chunk", [64, 200, 1000])
def test_plans_have_whole_sentences(preset, tokens, chunk) -> None:
    made = Summarizer(Options(preset=str(preset)))
    list(made._prepare())
    encoder = made._builder.encoder
    found = candidates(document(LONG))
    plan = ReadingPlan(LONG, found, encoder, chunk)
    assert [i for chunk in plan.chunks for i in chunk] == list(range(len(found)))
    assert max(plan.sizes()) <= chunk
    assert all(first + len(plan.tokens[second.start]) > chunk for first, second in _followed(plan))
    assert encoder.decode([token for tokens in plan.tokens for token in tokens]) == LONG


def _followed(plan: ReadingPlan) -> list[tuple[int, range]]:
    """Each chunk's size with the chunk after it."""
    return [(size, second) for size, (_, second) in zip(plan.sizes(), pairwise(plan.chunks), strict=False)]


class Counter:
    """Stands for a reader: the state of a token is the token and its place."""

    def states(self, tokens: list[int], behind: list[int]) -> torch.Tensor:
        read = torch.tensor([[token, place] for place, token in enumerate([*behind, *tokens])], dtype=torch.bfloat16)
        return read[len(behind) :]


class Numbers:
    """Stands for an encoder: a token for each word, which is a number."""

    def encode(self, text: str) -> list[int]:
        return [int(word) for word in text.split() if word.isdigit()]


def states_of(text: str, size: int, prefix: list[int]) -> tuple[list[list[float]], list[int]]:
    plan = ReadingPlan(text, candidates(document(text)), Numbers(), size)
    parts: list[np.ndarray] = []

    def collect(chunk: range) -> Iterator[Prefilled]:
        parts.append((yield from read_states(Counter(), plan, chunk, prefix)))

    pieces = [read.tokens for chunk in plan.chunks for read in collect(chunk)]
    return np.concatenate(parts).tolist(), pieces


def test_a_sentence_has_the_mean_of_its_tokens_states() -> None:
    """The words before a chunk are read with it, and are no part of any sentence's mean."""
    states, pieces = states_of("We saw 10 and 20 ships. We saw 1 and 2 and 6 boats.", 100, [90, 90])
    assert states == [[15.0, 2.5], [3.0, 5.0]]
    assert pieces == [7]


@pytest.mark.parametrize("size", [1, 2, 3])
def test_the_mean_of_a_long_sentence_is_over_all_its_pieces(size) -> None:
    states, pieces = states_of("We saw 10 and 20 and 60 ships.", size, [90])
    assert states[0][0] == pytest.approx(30.0)
    assert sum(pieces) == 3 + len(pieces)
    assert max(pieces) == size + 1


def test_a_sentence_without_tokens_has_no_state() -> None:
    assert states_of("We saw no ships at all.", 100, [90])[0] == [[0.0, 0.0]]


def test_a_second_run_reads_nothing(preset) -> None:
    first, _ = summarize(preset)
    second, events = summarize(preset)
    assert second.text == first.text
    assert all(event.reused for event in read(events))
    assert second.reused == len(second.plan.chunks)
    assert first.reused == 0
    assert second.meter.prompt_tokens == 0
    assert second.coverage.complete
    assert not [event for event in events if isinstance(event, Prefilled)]


def test_no_model_is_loaded_for_what_was_read(preset, monkeypatch) -> None:
    summarize(preset)
    monkeypatch.setattr("specextend_cli.runtime.loading.load_reader", lambda *_: pytest.fail("loaded"))
    assert summarize(preset, length=20)[0].method == "guided"


def test_an_interrupted_run_goes_on_where_it_stopped(preset) -> None:
    whole, _ = summarize(preset, cache=False)
    with Summarizer(Options(preset=str(preset))) as made:
        for event in (run := made.run(document(LONG))):
            if isinstance(event, ChunkRead) and event.number == 2:
                break
        run.close()
    summary, events = summarize(preset)
    assert [event.reused for event in read(events)] == [True, True, *[False] * (len(summary.plan.chunks) - 2)]
    assert summary.reused == 2
    assert summary.text == whole.text


def test_an_edited_document_is_read_again_where_it_changed(preset) -> None:
    summarize(preset)
    summary, _ = summarize(preset, source=LONG + " The harbour was sold to the council at last.")
    assert 0 < len(summary.plan.chunks) - summary.reused <= 2


def test_damaged_scores_are_computed_again(preset, monkeypatch) -> None:
    with Summarizer(Options(preset=str(preset))) as made:
        first = made.summarize(document(LONG))
        for stored in ("[]", "null", "[NaN]", "x", '{"a": 1}', "[" * 9999):
            monkeypatch.setattr("specextend_cli.summarize.cache.GenerationCache.get", lambda *_, s=stored: s)
            again = made.summarize(document(LONG))
            assert (again.text, again.reused) == (first.text, 0)


def test_scores_of_other_weights_or_precision_are_not_reused(presets, preset) -> None:
    summarize(preset)
    assert summarize(preset)[0].reused > 0
    assert summarize(preset, dtype="bfloat16")[0].reused == 0
    assert summarize(guided(presets["one"].parent, weights=[0.5] * 64))[0].reused == 0


def test_documents_do_not_see_each_other(preset) -> None:
    sources = [document(LONG), document(text(20, start=50), "b.txt")]
    with Summarizer(Options(preset=str(preset), cache=False)) as made:
        together = [made.summarize(source).text for source in sources]
        backwards = [made.summarize(source).text for source in reversed(sources)]
    assert together == backwards[::-1]


def test_a_sentence_longer_than_a_chunk_is_read_in_pieces(preset) -> None:
    long = "The council " + "and the harbour " * 400 + "agreed."
    summary, events = summarize(preset, source=f"{text(10)}\n\n{long}\n\n{text(10, start=20)}", cache=False)
    assert summary.method == "guided"
    assert summary.coverage.complete
    sizes = [event.tokens for event in events if isinstance(event, Prefilled)]
    made = Summarizer(Options(preset=str(preset)))
    list(made._prepare())
    assert max(sizes) <= len(made._reading_prefix) + 64
    assert summary.meter.prompt_tokens == sum(sizes) == summary.plan.tokens + len(sizes) * len(made._reading_prefix)


def test_weights_of_another_model_are_refused(presets) -> None:
    with pytest.raises(ModelError, match="cannot be used"):
        summarize(guided(presets["one"].parent, weights=[1.0] * 63))


def test_a_layer_that_the_target_has_not_is_refused(preset) -> None:
    weights = np.ones(64, np.float32)
    np.savez(preset.parent / "ranker" / "states.npz", weights=weights, scalars=np.array([0, 1.0, LAYER + 2]))
    with pytest.raises(ModelError, match="cannot rank sentences by its target") as refused:
        summarize(preset)
    assert "3 layers" in refused.value.why
