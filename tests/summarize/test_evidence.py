"""Sentences of tiny models' summaries know what they rest on: streamed, in batches, and again from the store."""

from __future__ import annotations

import pytest

from specextend_cli.models.tokens import load_tokenizer
from specextend_cli.summarize.events import ChunkSummarized, Sentence
from specextend_cli.summarize.text.sentences import spans
from specextend_cli.summarize.text_stream import TextStream
from tests.helpers.asked import asked
from tests.summarize.scribe import Scribe, document, run, summarizer
from tests.summarize.tiny_preset import text


def summarize(path, source, **options):
    with asked(model=path, dtype="float32", **{"cache": False, **options}) as made:
        return list(made.run(document(source)))


@pytest.mark.parametrize("length", [6, 30])
@pytest.mark.parametrize("name", ["one", "three"])
def test_the_summary_is_its_sentences(presets, name: str, length: int) -> None:
    events = summarize(presets[name], text(length))
    summary = events[-1].summary
    told = [event for event in events if isinstance(event, Sentence)]
    assert tuple(told) == summary.sentences
    assert "".join(one.lead + one.text for one in told) == summary.text
    assert [one.text for one in told] == [summary.text[start:end] for start, end in spans(summary.text)]
    assert all(one.text == one.text.strip() for one in told)
    # A short sentence may lie between two steps that were watched.
    assert any(c.attention is not None for one in told for c in one.citations)


def test_a_batch_of_notes_leads_to_the_same_citations(presets) -> None:
    # Without drafts: which tokens are watched would otherwise depend on what the gate, by the clock, lets pass.
    one, many = (summarize(presets["one"], text(30), batch=batch, draft="none")[-1].summary for batch in (1, 4))
    assert one.text == many.text
    for a, b in zip(one.sentences, many.sentences, strict=True):
        assert [(c.page, c.start) for c in a.citations] == [(c.page, c.start) for c in b.citations]
        # Other tokens are watched in a batch, so that the shares are others, a little.
        assert [c.score for c in a.citations] == pytest.approx([c.score for c in b.citations], abs=0.2)


def test_what_comes_from_the_store_rests_on_the_same(presets) -> None:
    first, again = (summarize(presets["one"], text(30), cache=True) for _ in range(2))
    assert all(event.reused for event in again if isinstance(event, ChunkSummarized))
    for a, b in zip(first[-1].summary.sentences, again[-1].summary.sentences, strict=True):
        assert (a.text, [(c.page, c.start) for c in a.citations]) == (b.text, [(c.page, c.start) for c in b.citations])
        assert [c.attention for c in a.citations] == pytest.approx([c.attention for c in b.citations], abs=0.02)


def test_what_the_source_has_not_is_found_where_it_stands(presets) -> None:
    made = summarizer(presets["three"], Scribe(lambda prompt, most: "It cost 4,711 crowns. So said Queen Ingeborg."))
    summary, _ = run(made, document(text(30)))
    assert [one.kind for one in summary.unsupported] == ["number", "name"] * (len(summary.unsupported) // 2)
    assert len(summary.unsupported) > 2
    for sentence in summary.sentences:
        for one in sentence.unsupported:
            assert sentence.text[one.start : one.end] == one.text


@pytest.mark.parametrize("words", ["Tea is cheap. Salt is not. Wool", "Tea. Tea. Salt is dear. ", "Tea", "A\nB\nC", ""])
def test_every_piece_of_text_knows_its_tokens(presets, words: str) -> None:
    tokenizer = load_tokenizer(presets["one"].parent / "target")
    stream = TextStream(tokenizer)
    tokens = tokenizer.encode(words).ids
    stream.until(tokens)
    stream.finish(whole=True)
    pieces = [stream.text[start:end] for start, end, _, _ in stream.origins]
    assert "".join(pieces) == "".join(one for one in stream.text if one != "\n").replace(". ", ".")
    for piece, (_, _, first, last) in zip(pieces, stream.origins, strict=True):
        assert tokenizer.decode(tokens[first:last]).strip() == piece
