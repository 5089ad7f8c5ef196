"""The whole pipeline with real models: tiny, random, in float32."""

from __future__ import annotations

import pytest

from specextend_cli.documents.read import read_bytes
from specextend_cli.engine.events import Step
from specextend_cli.errors import UsageError
from specextend_cli.summarize.events import Part, Plan, Sentence, Stage
from specextend_cli.summarize.writer import load_generator
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


@pytest.mark.parametrize("name", ["one", "three"])
def test_a_long_document_becomes_notes_and_notes_a_summary(presets, name):
    events = summarize(presets[name], LONG)
    summary = events[-1].summary
    assert [event for event in events if isinstance(event, Plan)] == [summary.plan]
    assert len(summary.chunk_summaries) == sum(isinstance(event, Part) and event.level == 1 for event in events) == 4
    assert "".join(event.lead + event.text for event in events if isinstance(event, Sentence)) == summary.text
    assert 0 < len(summary.text) < len(LONG)
    assert summary.coverage.complete
    assert summary.meter.tokens == sum(len(event.tokens) for event in events if isinstance(event, Step))
    assert "\ufffd" not in summary.text
    assert summary.drafter == "blend (ngram + lm)"


@pytest.fixture(scope="module")
def plain(presets):
    """The text without drafts."""
    return summarize(presets["one"], draft="none")[-1].summary.text


@pytest.fixture
def always(monkeypatch):
    """Drafts whether they pay or not."""

    def load(*arguments):
        generator = load_generator(*arguments)
        generator.draft_gate.enabled = False
        return generator

    monkeypatch.setattr("specextend_cli.summarize.writer.load_generator", load)


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("draft", ["ngram", "lm", "self", "blend"])
def test_no_drafter_changes_a_word(presets, plain, draft):
    events = summarize(presets["one"], draft=draft)
    assert events[-1].summary.text == plain
    assert any(event.nodes > 1 for event in events if isinstance(event, Step))


@pytest.mark.usefixtures("always")
def test_a_head_of_the_users_own_changes_no_word_either(presets, plain, tmp_path):
    """What drafts, and what speaks against the head, is said when it is loaded."""
    for layout, said, remarks in (safeailab_3, "eagle3 of layers 2, 1, 0", 0), (p_eagle, "P-EAGLE", 2):
        layout(tmp_path, tokenizer().get_vocab_size())
        events = summarize(presets["one"], draft_head=tmp_path)
        stages = [event.name for event in events if isinstance(event, Stage)]
        assert (events[-1].summary.text, said in " ".join(stages)) == (plain, True)
        assert f"drafts: {events[-1].summary.drafter}" in stages
        assert sum(stage.startswith("the draft head:") for stage in stages) == remarks


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


def test_documents_do_not_see_each_other(presets):
    sources = [document(LONG), document(SHORT, "b.txt"), document(text(8, start=50))]
    texts = []
    for order in (sources, sources[::-1]):
        with asked(model=presets["one"], cache=False) as summarizer:
            texts.append([list(summarizer.run(source))[-1].summary.text for source in order])
    assert texts[0] == texts[1][::-1]


@pytest.mark.parametrize("device", ["nonsense", "cuda:99", "meta", "cpu:3"])
def test_a_device_that_is_not_there(presets, device):
    with pytest.raises(UsageError, match=f"device '?{device}"):
        summarize(presets["one"], device=device)
