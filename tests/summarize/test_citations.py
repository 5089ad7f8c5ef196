"""Which passages of a document support a sentence of its summary: by the words they share, through chunk summaries."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specextend_cli.documents.document import Chunk
from specextend_cli.summarize.citations import (
    DocumentSentence,
    Origin,
    SentenceIndex,
    document_sentences,
    origin_of,
    summarized,
)
from specextend_cli.summarize.events import ChunkSummarized, Sentence
from specextend_cli.summarize.sentences import spans
from specextend_cli.summarize.words import ordered_terms, terms
from tests.helpers.asked import asked
from tests.helpers.planted import plant
from tests.summarize.scribe import Scribe, document, run, summarizer
from tests.summarize.tiny_preset import text

PLANTED = plant(12, seed=3)
PASSAGES = document_sentences(PLANTED.document, [Chunk(0, len(PLANTED.document.text), 0)])
INDEX = SentenceIndex(PLANTED.document.text, PASSAGES)
EVERY = (Origin(range(len(PASSAGES))),)


def pages(sentence: str, origins: tuple[Origin, ...] = EVERY) -> list[int]:
    """The pages that are cited for a sentence, the best first."""
    return [PASSAGES[number].page for number in INDEX.support(sentence, origins)]


@given(st.text(st.characters(max_codepoint=127)))
def test_ascii_has_the_terms_that_it_has_beside_other_letters(text: str) -> None:
    assert ordered_terms(f"{text} Ω") == [*ordered_terms(text), "ω"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("The Councils’ bridges, 1,200 of them", terms("the council's bridge 1200 OF them")),
        ("洪水来了", {"洪水", "水来", "来了"}),
        ("水", {"水"}),
        ("서울은 크다", {"서울", "울은", "크다"}),
        ("हिन्दी में", {"हिनदी", "में"}),
        ("عام ٢٠٣٠ و２５", {"عام", "2030", "و", "25"}),
        ("A câmara 1,200", {"a", "camara", "1200"}),
    ],
)
def test_terms_have_no_endings_accents_or_separators(text: str, found: set[str]) -> None:
    assert terms(text) == found


def test_a_rare_word_counts_more_than_one_that_every_passage_has() -> None:
    source = "the town flooded the town voted the town burned"
    index = SentenceIndex(source, [DocumentSentence(at, at + 16, 1) for at in (0, 17, 32)])
    weights = index.weights("the flooded town")
    assert sum(weights.values()) == pytest.approx(1)
    shares = index.shares(weights, range(3))
    assert max(shares, key=lambda number: shares[number]) == 0
    assert index.shares(weights, range(1, 2)) == {1: shares[1]}
    assert index.support("the flooded town", (Origin(range(3)),)) == {0: pytest.approx(1)}


def test_two_facts_in_a_sentence_are_two_pages() -> None:
    one, other = PLANTED.facts[4].sentence, PLANTED.facts[9].sentence
    assert set(pages(f"{one[:-1]}, and {other}")) == {5, 10}
    assert pages(one) == [5]


@pytest.mark.parametrize(
    "sentence",
    ["Nothing whatsoever about penguins.", "Im Hafen leben die Familien vom Fischfang.", ""],
)
def test_where_little_is_shared_no_source_is_found(sentence: str) -> None:
    assert pages(sentence) == []


def test_names_and_numbers_find_the_source_of_a_translation() -> None:
    fact = PLANTED.facts[2]
    assert pages(f"{fact.place} zahlte im Jahr {fact.year} dafür {fact.sum} Kronen.") == [fact.page]


def test_what_was_not_read_is_no_source() -> None:
    (right,) = INDEX.support(PLANTED.facts[1].sentence, EVERY)
    later = (Origin(range(right + 1, len(PASSAGES))),)
    assert all(page > 2 for page in pages(PLANTED.facts[1].sentence, later))


def test_a_chunk_summary_tells_the_chunk() -> None:
    """It shares the words that no passage has; only in its chunk is the first source looked for."""
    half = len(PASSAGES) // 2
    said = f"A grand scandal about {PLANTED.facts[9].sentence}"
    chunks = Origin(range(half)), Origin(range(half, len(PASSAGES)))
    assert pages(said, chunks) == [10]
    told = *summarized(chunks[:1], f"{said} It was grave."), chunks[1]
    assert summarized(told, "Anything") == told
    assert 10 not in pages(said, told)[:1]


@given(st.integers(1, 6), st.integers(0, 5))
def test_every_chunk_knows_its_sentences(cuts: int, seed: int) -> None:
    source = plant(4, seed).document
    size = len(source.text) // cuts + 1
    chunks = [Chunk(at, min(at + size, len(source.text)), 0) for at in range(0, len(source.text), size)]
    found = document_sentences(source, chunks)
    own = [origin_of(chunk, found).sentences for chunk in chunks]
    assert [number for numbers in own for number in numbers] == list(range(len(found)))
    for chunk, numbers in zip(chunks, own, strict=True):
        inside = [(found[number].start - chunk.start, found[number].end - chunk.start) for number in numbers]
        assert inside == spans(source.text[chunk.start : chunk.end])
    assert all(source.pages_of(one.start, one.end)[0] == one.page for one in found)


# ------------------------------------------------------------------------------------------------------ whole summaries


def summarize(path, source, **options):
    with asked(model=path, dtype="float32", **{"cache": False, **options}) as made:
        return list(made.run(document(source)))


@pytest.mark.parametrize(("name", "length"), [("one", 6), ("one", 30), ("three", 30)])
def test_the_summary_is_its_sentences(presets, name: str, length: int) -> None:
    *events, last = summarize(presets[name], text(length))
    told = [event for event in events if isinstance(event, Sentence)]
    assert tuple(told) == last.summary.sentences
    assert "".join(one.lead + one.text for one in told) == last.summary.text
    assert [one.text for one in told] == [last.summary.text[start:end] for start, end in spans(last.summary.text)]


def test_batches_and_stored_texts_have_the_same_citations(presets) -> None:
    choices = ((1, False), (4, True), (4, True))
    one, many, again = (summarize(presets["one"], text(30), batch=batch, cache=cache) for batch, cache in choices)
    assert all(event.reused for event in again if isinstance(event, ChunkSummarized))
    assert one[-1].summary.sentences == many[-1].summary.sentences == again[-1].summary.sentences


def test_what_the_source_has_not_is_found_where_it_stands(presets) -> None:
    made = summarizer(presets["three"], Scribe(lambda prompt, most: "It cost 4,711 crowns. So said Queen Ingeborg."))
    summary, _ = run(made, document(text(30)))
    assert [one.kind for one in summary.unsupported] == ["number", "name"] * 2
    for sentence in summary.sentences:
        assert all(sentence.text[one.start : one.end] == one.text for one in sentence.unsupported)


def test_a_summary_of_chunk_summaries_cites_the_pages_behind_them(presets) -> None:
    planted = plant(8, seed=5)
    made = summarizer(presets["one"], chunk_summary_tokens=100, summary_tokens=400)
    facts = [fact for fact in planted.facts if "crowns" in fact.sentence]

    def copied(prompt: list[int], most: int) -> str:
        read = made.prompts.encoder.decode(prompt)
        return " ".join(fact.sentence for fact in facts if fact.sentence in read)

    made._generator = Scribe(copied)
    summary, _ = run(made, replace(planted.document, name="a.txt"))
    assert summary.plan.levels > 2
    assert [[one.page for one in sentence.citations] for sentence in summary.sentences] == [[one.page] for one in facts]
    for sentence in summary.sentences:
        (citation,) = sentence.citations
        assert planted.document.text[citation.start : citation.end] == sentence.text
        assert citation.score == 1
