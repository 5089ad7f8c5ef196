"""Map and reduce: every token is read once, levels shrink as planned, drafts of real (tiny) models change no word."""

from __future__ import annotations

from itertools import groupby

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specextend_cli.engine.events import Accepted
from specextend_cli.errors import InputError, UsageError
from specextend_cli.summarize.events import Plan, Sentence, Stage, Warned
from specextend_cli.summarize.mapreduce import pack
from specextend_cli.summarize.writer import load_writer
from tests.helpers.asked import asked
from tests.helpers.grid import but_for
from tests.helpers.published_heads import safeailab_3, speculators
from tests.summarize.scribe import Scribe, document, parts, run, summarizer
from tests.summarize.tiny_preset import make_other, mamba, text, tokenizer

SHORT, LONG = text(6), text(30)


def summarize(path, source=SHORT, **options):
    """The events of one run by itself."""
    with asked(model=path, **{"cache": False, **options}) as made:
        return list(made.run(document(source)))


prose = st.lists(
    st.one_of(
        st.text(max_size=40),
        st.sampled_from([" ", "\n", "\n\n", "Ships bring timber. ", "<|im_end|>", "🙂你好", "word " * 30]),
    ),
    max_size=30,
).map("".join)


@settings(max_examples=30, deadline=None)
@given(prose.filter(str.strip), st.integers(12, 150), st.integers(1, 3))
def test_every_token_is_in_exactly_one_first_level_prompt(presets, source, chunk, summary_parts):
    source = source.encode("utf-8", "replace").decode()
    made = summarizer(presets["one"], chunk=chunk, chunk_summary_tokens=8, summary_parts=summary_parts)
    summary, _ = run(made, document(source))
    assert summary.coverage.tokens == summary.plan.tokens == sum(summary.plan.chunks)
    assert summary.coverage.complete
    if summary.method == "verbatim":
        assert (summary.text, summary.plan.prompts) == (source.strip(), 0)
        return
    read, encoder = made.prompts.first(), made.prompts.encoder
    assert "".join(read) == source
    assert [len(encoder.encode(piece)) for piece in read] == list(summary.plan.chunks)
    assert max(summary.plan.chunks) <= chunk
    for template, piece, ids in made.prompts.asked:
        assert template == "reduce" or str(encoder.encode(piece))[1:-1] in str(ids)


@pytest.mark.parametrize("name", ["one", "three"])
@pytest.mark.parametrize("sentences", but_for((12, 300), (3, 5, 8, 12, 20, 33, 60, 140, 300)))
def test_levels_shrink_to_the_planned_end(presets, name, sentences):
    made = summarizer(presets[name], chunk=60)
    summary, events = run(made, document(text(sentences)))
    done = parts(events)
    counts = [len(list(level)) for _, level in groupby(done, key=lambda part: part.level)]
    assert counts[0] == len(summary.plan.chunks)
    assert counts == sorted(set(counts), reverse=True)
    assert counts[-1] <= made.preset.window.summary_parts
    assert len(counts) == done[-1].level == summary.plan.levels
    assert [part.final for part in done] == [part.level == len(counts) for part in done]
    assert 0 < len(summary.text) < len(text(sentences))


@pytest.mark.parametrize("sentences", [20, 300])
def test_short_notes_take_no_more_levels_than_planned(presets, sentences):
    summary, events = run(summarizer(presets["one"], Scribe(lambda *_: "Short."), chunk=60), document(text(sentences)))
    assert parts(events)[-1].level <= summary.plan.levels


@given(st.lists(st.integers(0, 50), min_size=2, max_size=60), st.integers(10, 200), st.integers(1, 4))
def test_packing_keeps_order_and_pairs(sizes, room, parts):
    groups = pack(sizes, room, parts)
    assert [i for group in groups for i in group] == list(range(len(sizes)))
    assert min(map(len, groups)) >= 2


def test_a_model_that_says_nothing_is_reported(presets):
    summary, events = run(summarizer(presets["one"], Scribe(lambda *_: "")), document(text(30)))
    assert (summary.text, summary.chunk_summaries) == ("", ("",) * 4)
    assert [event.message for event in events if isinstance(event, Warned)] == [
        "the model wrote no summary: another --model may"
    ]


def test_a_plan_loads_no_model_and_there_is_none_for_nothing(presets):
    made = summarizer(presets["one"])
    made._generator = None
    assert made.plan(document(text(30))).levels == 2
    assert made._generator is None
    with pytest.raises(InputError, match=r"a\.txt has no text"):
        made.plan(document(" \n\n "))


@pytest.mark.parametrize("name", ["one", "three"])
def test_a_long_document_becomes_notes_and_notes_a_summary(presets, name):
    events = summarize(presets[name], LONG)
    summary = events[-1].summary
    assert [event for event in events if isinstance(event, Plan)] == [summary.plan]
    assert len(summary.chunk_summaries) == sum(part.level == 1 for part in parts(events)) == 4
    assert "".join(event.lead + event.text for event in events if isinstance(event, Sentence)) == summary.text
    assert 0 < len(summary.text) < len(LONG)
    assert summary.coverage.complete
    assert summary.meter.tokens == sum(len(event.tokens) for event in events if isinstance(event, Accepted))
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
    assert any(event.nodes > 1 for event in events if isinstance(event, Accepted))


@pytest.mark.usefixtures("always")
def test_a_head_of_the_users_own_changes_no_word_either(presets, plain, tmp_path):
    """What drafts, and what speaks against the head, is said when it is loaded."""
    for layout, said, remarks in (safeailab_3, "eagle3 of layers 2, 1, 0", 0), (speculators, "whichever way", 1):
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


@pytest.fixture(scope="module")
def other(presets, tmp_path_factory):
    """A preset whose target runs by transformers."""
    return make_other(tmp_path_factory.mktemp("other"), presets["one"])


def test_a_model_that_the_engine_s_forward_does_not_run(other):
    """It is said once, whatever is summarized; chunks are decoded one after the other; nothing drafts."""
    with asked(model=other, cache=False, batch=4) as made:
        events = [event for source in (LONG, SHORT) for event in made.run(document(source))]
    summary = events[-1].summary
    told = [event.message for event in events if isinstance(event, Warned)]
    assert told == ["other runs plainly by transformers: its attention keeps a compressed cache (MLA)"]
    assert summary.text
    assert summary.drafter == "none"
    assert summary.meter.accepted_length == 1
    assert all(event.nodes <= 1 and event.batch_size == 1 for event in events if isinstance(event, Accepted))
    retold = summarize(other, temperature=0.9, seed=3)[-1].summary
    assert retold.text == summarize(other, temperature=0.9, seed=3)[-1].summary.text != summary.text
    assert retold.warnings == (*told,)


def test_a_model_without_attention(presets, tmp_path):
    summary = summarize(make_other(tmp_path, presets["one"], mamba()))[-1].summary
    assert summary.text
    assert "none of its layers attends" in summary.warnings[0]


@pytest.mark.parametrize("drafts", [{"draft": "ngram"}, {"draft": "lm"}])
def test_it_is_not_drafted_for(other, drafts):
    with pytest.raises(
        UsageError, match="preset other cannot be drafted for: it runs plainly by transformers"
    ) as caught:
        summarize(other, **drafts)
    assert (caught.value.why, caught.value.fix) == (
        "its attention keeps a compressed cache (MLA)",
        "leave out --draft and --draft-head",
    )
    assert summarize(other, draft="none")[-1].summary.text


def test_sampling_with_a_seed_can_be_repeated(presets):
    hot = {"temperature": 1.5, "draft": "ngram"}
    one, same, other = (summarize(presets["one"], seed=seed, **hot)[-1].summary.text for seed in (1, 1, 2))
    assert one == same != other


def test_documents_do_not_see_each_other(presets):
    sources = [document(LONG), document(SHORT, "b.txt"), document(text(8, start=50))]
    texts = []
    for order in (sources, sources[::-1]):
        with asked(model=presets["one"], cache=False) as made:
            texts.append([list(made.run(source))[-1].summary.text for source in order])
    assert texts[0] == texts[1][::-1]


@pytest.mark.parametrize("device", ["nonsense", "cuda:99", "meta", "cpu:3"])
def test_a_device_that_is_not_there(presets, device):
    with pytest.raises(UsageError, match=f"device '?{device}"):
        summarize(presets["one"], device=device)
