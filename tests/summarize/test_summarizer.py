"""The whole pipeline with real models: tiny, random, in float32."""

from __future__ import annotations

import pytest

from specextend_cli.documents.read import read_bytes
from specextend_cli.engine.events import Prefilled, Prefilling, Step
from specextend_cli.errors import FitError, UsageError
from specextend_cli.models.footprint import Estimate
from specextend_cli.summarize.events import ChunkSummarized, Part, Plan, Sentence, Stage
from specextend_cli.summarize.writer import load_writer
from tests.helpers.asked import asked
from tests.helpers.published_heads import p_eagle, safeailab_3
from tests.summarize.tiny_preset import text, tokenizer

SHORT, LONG = text(6), text(30)


def document(source, name="harbour.txt"):
    return read_bytes(name, source.encode())


def summarize(path, source=SHORT, **options):
    """The events of one run by itself."""
    with asked(model=path, **{"cache": False, **options}) as summarizer:
        return list(summarizer.run(document(source)))


def emitted(events):
    return [token for event in events if isinstance(event, Step) for token in event.tokens]


@pytest.mark.parametrize("name", ["one", "three"])
def test_a_long_document_becomes_notes_and_notes_a_summary(presets, tokens, name):
    events = summarize(presets[name], LONG)
    summary = events[-1].summary
    parts = [event for event in events if isinstance(event, Part)]
    assert [event for event in events if isinstance(event, Plan)] == [summary.plan]
    assert sum(part.level == 1 for part in parts) == 4
    assert len(summary.chunk_summaries) == 4
    assert "".join(event.lead + event.text for event in events if isinstance(event, Sentence)) == summary.text
    assert 0 < tokens(summary.text) < summary.plan.tokens
    assert summary.coverage.complete
    assert summary.meter.tokens == len(emitted(events))
    assert "\ufffd" not in summary.text
    assert summary.drafter == "blend (ngram + lm)"


@pytest.fixture(scope="module")
def plain(presets):
    """The text without drafts."""
    return summarize(presets["one"], draft="none")[-1].summary.text


@pytest.fixture
def always(monkeypatch):
    """Drafts whether they pay or not."""

    def load(*arguments, **options):
        generator = yield from load_writer(*arguments, **options)
        generator.draft_gate.enabled = False
        return generator

    monkeypatch.setattr("specextend_cli.summarize.writer.load_writer", load)


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("draft", ["ngram", "lm", "self", "blend"])
def test_no_drafter_changes_a_word(presets, plain, draft):
    events = summarize(presets["one"], draft=draft)
    assert events[-1].summary.text == plain
    assert any(event.nodes > 1 for event in events if isinstance(event, Step))


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("draft", [None, "eagle"])
def test_a_head_of_the_users_own_changes_no_word_either(presets, plain, tmp_path, draft):
    safeailab_3(tmp_path, tokenizer().get_vocab_size())
    events = summarize(presets["one"], draft=draft, draft_head=tmp_path)
    assert events[-1].summary.text == plain
    eagle = "eagle3 of layers 2, 1, 0"
    assert events[-1].summary.drafter == (f"blend ({eagle} + ngram)" if draft is None else eagle)
    assert Stage(f"drafts: {events[-1].summary.drafter}") in events
    with pytest.raises(UsageError, match="no directory"):
        summarize(presets["one"], draft_head=tmp_path / "nowhere")


def test_what_speaks_against_a_head_is_said(presets, tmp_path):
    p_eagle(tmp_path, tokenizer().get_vocab_size())
    said = [event.name for event in summarize(presets["one"], draft_head=tmp_path) if isinstance(event, Stage)]
    assert [stage.partition(":")[0] for stage in said].count("the draft head") == 2
    assert any("P-EAGLE" in stage for stage in said)


def test_a_blend_without_a_draft_model_drafts_with_the_target(presets, plain, tmp_path):
    path = tmp_path / "single.toml"
    source = presets["one"].read_text()
    start, end = source.index("[draft]"), source.index("[retrieval]")
    path.write_text(source[:start].replace('"target"', f'"{presets["one"].parent / "target"}"') + source[end:])
    assert summarize(path, draft="blend")[-1].summary.text == plain
    with pytest.raises(UsageError, match="preset single has no draft model"):
        summarize(path, draft="lm")


def test_sampling_with_a_seed_can_be_repeated(presets):
    hot = {"temperature": 1.5, "draft": "ngram"}
    one, same, other = (summarize(presets["one"], seed=seed, **hot)[-1].summary.text for seed in (1, 1, 2))
    assert one == same != other


def test_an_interrupted_run_is_continued_without_repeating_a_note(presets):
    path = presets["one"]
    whole = summarize(path, LONG, batch=1)
    with asked(model=path, batch=1) as summarizer:
        run = summarizer.run(document(LONG))
        for event in run:
            if isinstance(event, Part) and event.number == 3:
                break
        assert isinstance(next(run), Prefilling)
        run.close()
    resumed = summarize(path, LONG, cache=True, batch=1)
    assert [event.reused for event in resumed if isinstance(event, ChunkSummarized)] == [True, True, False, False]
    assert sum(isinstance(event, Prefilled) for event in resumed) == 3
    assert resumed[-1].summary.text == whole[-1].summary.text
    assert resumed[-1].summary.chunk_summaries == whole[-1].summary.chunk_summaries


def test_documents_do_not_see_each_other(presets):
    sources = [document(LONG), document(SHORT, "b.txt"), document(text(8, start=50))]
    with asked(model=presets["one"], cache=False) as summarizer:
        together = [list(summarizer.run(source))[-1].summary.text for source in sources]
    with asked(model=presets["one"], cache=False) as summarizer:
        backwards = [list(summarizer.run(source))[-1].summary.text for source in reversed(sources)]
    assert together == backwards[::-1]


@pytest.mark.parametrize("device", ["nonsense", "cuda:99", "meta", "cpu:3"])
def test_a_device_that_is_not_there(presets, device):
    with pytest.raises(UsageError, match=f"device '?{device}"):
        summarize(presets["one"], device=device)


def test_a_model_that_does_not_fit_is_refused_before_it_is_loaded(presets, monkeypatch):
    huge = Estimate(weights=10**15, kv=0, draft_weights=0, draft_kv=0, workspace=0)
    monkeypatch.setattr("specextend_cli.runtime.loading.estimate", lambda preset, **_: huge)
    monkeypatch.setattr("specextend_cli.models.load.load_model", lambda *_, **__: pytest.fail("loaded"))
    with pytest.raises(FitError, match="does not fit into memory") as refused:
        summarize(presets["one"], device="cpu")
    assert "1000000.0 GB" in refused.value.why
