"""Every token is read once, levels shrink, and the plan says what will happen."""

from __future__ import annotations

from itertools import groupby, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specextend_cli.errors import InputError
from specextend_cli.summarize.events import Warned
from specextend_cli.summarize.mapreduce import pack
from tests.helpers.grid import but_for
from tests.summarize.scribe import Scribe, document, parts, run, summarizer
from tests.summarize.tiny_preset import text

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
@pytest.mark.parametrize("sentences", but_for((3, 12, 300), (3, 5, 8, 12, 20, 33, 60, 140, 300)))
def test_levels_shrink_to_the_planned_end(presets, tokens, name, sentences):
    made = summarizer(presets[name], chunk=60)
    summary, events = run(made, document(text(sentences)))
    done = parts(events)
    counts = [len(list(level)) for _, level in groupby(done, key=lambda part: part.level)]
    assert counts[0] == len(summary.plan.chunks)
    assert all(after < before for before, after in pairwise(counts))
    assert counts[-1] <= made.preset.window.summary_parts
    assert len(counts) == done[-1].level == summary.plan.levels
    assert [part.final for part in done] == [part.level == len(counts) for part in done]
    assert 0 < tokens(summary.text) < summary.plan.tokens


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


def test_a_plan_loads_no_model(presets):
    made = summarizer(presets["one"])
    made._generator = None
    assert made.plan(document(text(30))).levels == 2
    assert made._generator is None


def test_there_is_no_plan_for_nothing(presets):
    with pytest.raises(InputError, match=r"a\.txt has no text"):
        summarizer(presets["one"]).plan(document(" \n\n "))
