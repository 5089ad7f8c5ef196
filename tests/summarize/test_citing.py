"""Which document sentences support a sentence: by words, by attention, through chunk summaries."""

from __future__ import annotations

import random
from collections import Counter
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specextend_cli.documents.document import Chunk
from specextend_cli.engine.attribution import attribution_layers
from specextend_cli.summarize.events import Sentence, SentenceAttention, Text
from specextend_cli.summarize.evidence import (
    Citer,
    DocumentSentence,
    Provenance,
    SourceSpan,
    attended_sentences,
    document_sentences,
    join_texts,
    provenance_of,
)
from specextend_cli.summarize.result_store import pack, unpack
from specextend_cli.summarize.text.sentences import spans
from specextend_cli.summarize.text.terms import TfidfIndex, ordered_terms, terms
from tests.helpers.planted import plant
from tests.summarize.scribe import Scribe, Scribed, run, summarizer


def whole(document) -> list[DocumentSentence]:
    return document_sentences(document, [Chunk(0, len(document.text), 0)])


def test_words_are_compared_without_their_endings() -> None:
    assert terms("The Councils’ bridges, 1,200 of them") == terms("the council's bridge 1200 OF them")


@given(st.text(st.characters(max_codepoint=127)))
def test_ascii_has_the_terms_that_it_has_beside_other_letters(text: str) -> None:
    assert ordered_terms(f"{text} Ω") == [*ordered_terms(text), "ω"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("洪水来了", {"洪水", "水来", "来了"}),
        ("水", {"水"}),
        ("서울은 크다", {"서울", "울은", "크다"}),
        ("हिन्दी में", {"हिनदी", "में"}),
        ("عام ٢٠٣٠ و２５", {"عام", "2030", "و", "25"}),
        ("A câmara 1,200", {"a", "camara", "1200"}),
    ],
)
def test_terms_of_other_scripts(text: str, found: set[str]) -> None:
    assert terms(text) == found


def test_a_rare_word_counts_more_than_one_that_every_passage_has() -> None:
    index = TfidfIndex(["the town flooded", "the town voted", "the town burned"])
    weights = index.weights("the flooded town")
    assert sum(weights.values()) == pytest.approx(1)
    shares = index.shares(weights)
    assert max(shares, key=lambda i: shares[i]) == 0
    assert set(index.missing(weights, 1)) == terms("flooded")


def test_two_facts_in_a_sentence_are_two_pages() -> None:
    planted = plant(12, seed=3)
    citer = Citer(planted.document.text, whole(planted.document))
    one, other = planted.facts[4].sentence, planted.facts[9].sentence
    found = citer.evidence(f"{one[:-1]}, and {other}", {})
    assert {citer.sentences[evidence.sentence].page for evidence in found} == {5, 10}
    assert all(evidence.attention is None for evidence in found)


def test_idle_talk_has_no_source() -> None:
    planted = plant(6, seed=3)
    citer = Citer(planted.document.text, whole(planted.document))
    assert citer.evidence("Nothing whatsoever about penguins.", {}) == []
    assert citer.evidence("", {0: 1.0, 1: 0.9, 2: 0.9, 3: 0.9, 4: 0.9}) == []


def test_what_was_not_read_is_no_source() -> None:
    planted = plant(6, seed=3)
    citer = Citer(planted.document.text, whole(planted.document))
    sentence = planted.facts[1].sentence
    (right,) = citer.evidence(sentence, {})
    assert citer.sentences[right.sentence].page == 2
    other = citer.evidence(sentence, {}, range(right.sentence + 1, len(citer.sentences)))
    assert all(citer.sentences[one.sentence].page > 2 for one in other)


def test_joined_texts_have_the_provenance_of_each() -> None:
    one = Provenance((SourceSpan(0, 3, {1: 1.0}), SourceSpan(4, 7, {0: 1.0})), range(0, 3))
    other = Provenance((SourceSpan(0, 2, {5: 1.0}),), range(3, 8))
    text, provenance = join_texts([("abc def", one), ("gh", other)], "\n\n")
    assert [text[span.start : span.end] for span in provenance.spans] == ["abc", "def", "gh"]
    assert provenance.read == range(0, 8)


def test_other_words_are_cited_where_attention_is_sure() -> None:
    planted = plant(6, seed=3)
    citer = Citer(planted.document.text, whole(planted.document))
    (found,) = citer.evidence("Rien que des pingouins.", {7: 0.3, 2: 0.05, 1: 0.1})
    assert (found.sentence, found.lexical, found.attention) == (7, 0.0, 1.0)


def made_up(planted, rng: random.Random) -> list[tuple[str, set[int], dict[int, float]]]:
    """Sentences that state a fact, and where they might have been looked for.

    Of three kinds: the fact as it stands; in words that other pages have too; and one whose attention went astray.
    """
    found = whole(planted.document)
    right = {fact.page: next(i for i, p in enumerate(found) if planted.document.text[p.start : p.end] == fact.sentence)
             for fact in planted.facts}  # fmt: skip
    cases = []
    for number, fact in enumerate(planted.facts):
        attention = {i: rng.uniform(0, 0.05) for i in range(len(found))}
        attention[right[fact.page]] += rng.uniform(0.05, 0.3)
        sentence = fact.sentence
        if number % 3 == 1:
            sentence = (
                fact.sentence.replace(fact.place, "a town").replace(fact.year, "those days").replace(fact.sum, "many")
            )
        if number % 7 == 2:
            attention[rng.randrange(len(found))] += 0.4
        cases.append((sentence, {fact.page}, attention))
    return cases


def test_words_and_attention_together_are_right_more_often_than_either() -> None:
    cited, right = Counter[str](), Counter[str]()
    for seed in range(6):
        planted = plant(21, seed)
        found = whole(planted.document)
        citers = {"words": Citer(planted.document.text, found, trust=0.0), "both": Citer(planted.document.text, found)}
        for sentence, pages, attention in made_up(planted, random.Random(seed)):
            ways = {way: [one.sentence for one in citer.evidence(sentence, attention)] for way, citer in citers.items()}
            ways["attention"] = [max(attention, key=lambda i: attention[i])]
            for way, numbers in ways.items():
                cited[way] += len(numbers)
                right[way] += sum(found[number].page in pages for number in numbers)
    precision = {way: right[way] / cited[way] for way in cited}
    assert precision["both"] > 0.95 > max(precision["words"], precision["attention"])


def test_attention_on_chunk_summaries_is_attention_on_what_they_come_from() -> None:
    source = Provenance((SourceSpan(0, 10, {3: 0.75, 8: 0.25}), SourceSpan(11, 20, {5: 1.0})), range(9))
    attention = [SentenceAttention(0, 10, {0: 0.4, 1: 0.1}), SentenceAttention(12, 20, {1: 0.5})]
    assert attended_sentences(0, 10, attention, source) == pytest.approx({3: 0.3, 8: 0.1, 5: 0.1})
    assert attended_sentences(11, 21, attention, source) == {5: 0.5}
    assert attended_sentences(30, 40, attention, source) == {}


@given(st.integers(1, 6), st.integers(0, 5))
def test_every_chunk_knows_its_sentences(cuts: int, seed: int) -> None:
    document = plant(4, seed).document
    size = len(document.text) // cuts + 1
    chunks = [Chunk(at, min(at + size, len(document.text)), 0) for at in range(0, len(document.text), size)]
    found = document_sentences(document, chunks)
    assert "".join(document.text[p.start : p.end] for p in found).split() == "".join(
        document.text[a:b] for chunk in chunks for a, b in _moved(document.text, chunk)
    ).split()  # fmt: skip
    for chunk in chunks:
        inside = provenance_of(chunk, found).spans
        text = document.text[chunk.start : chunk.end]
        assert [(one.start, one.end) for one in inside] == spans(text)
        for one in inside:
            (number,) = one.sentences
            sentence = found[number]
            assert text[one.start : one.end] == document.text[sentence.start : sentence.end]
            assert document.pages_of(sentence.start, sentence.end)[0] == sentence.page


def _moved(text: str, chunk: Chunk) -> list[tuple[int, int]]:
    return [(chunk.start + a, chunk.start + b) for a, b in spans(text[chunk.start : chunk.end])]


def test_attention_is_kept_as_it_was() -> None:
    attention = [SentenceAttention(0, 12, {3: 0.5, 7: 0.1234}), SentenceAttention(13, 20, {})]
    assert unpack(pack(attention)) == attention
    for damaged in ("", "[", "[[1, 2]]", "[[1, 2, 3]]", '[["a", 1, {}]]', "null"):
        assert unpack(damaged) == []


@pytest.mark.parametrize("layers", [1, 2, 3, 12, 30, 80])
def test_every_model_has_layers_to_look_at(layers: int) -> None:
    chosen = attribution_layers(layers)
    assert chosen
    assert all(0 <= layer < layers for layer in chosen)


class Copyist(Scribe):
    """Writes down of each prompt the sentences with a sum in them, and says that it attended to them."""

    def __init__(self, made: Scribed, looking: bool) -> None:
        super().__init__(lambda prompt, most: "")
        self.made, self.looking = made, looking

    def generate(self, prompt):
        final = prompt.part.final
        text = next(text for _, text, ids in reversed(self.made.prompts.asked) if ids == prompt.tokens)
        told = [(n, text[a:b]) for n, (a, b) in enumerate(spans(text)) if "crowns" in text[a:b]]
        said, attention, at = [], [], 0
        for number, sentence in told:
            words = sentence if not final else "This was about crowns."
            attention.append(SentenceAttention(at, at + len(words), {number: 0.4}))
            said.append(words)
            at += len(words) + 1
        found = tuple(attention) if self.looking else ()
        yield Text(" ".join(said), found)
        return SimpleNamespace(text=" ".join(said), attention=found)


@pytest.mark.parametrize("looking", [True, False])
def test_a_summary_of_notes_cites_the_pages_behind_the_notes(presets, looking: bool) -> None:
    """Words tell nothing here: only attention, through a chunk summary, leads back to a page."""
    planted = plant(8, seed=5)
    made = summarizer(presets["one"], chunk_summary_tokens=100, summary_tokens=400)
    made._generator = Copyist(made, looking)
    summary, events = run(made, planted.document)
    told = [event for event in events if isinstance(event, Sentence)]
    assert summary.plan.levels > 2
    assert tuple(told) == summary.sentences
    assert "".join(one.lead + one.text for one in told) == summary.text
    expected = [fact.page for fact in planted.facts if "crowns" in fact.sentence]
    cited = [one.citations[0].page if one.citations else None for one in told]
    assert (cited == expected) is looking
    for one in told:
        for citation in one.citations:
            passage = planted.document.text[citation.start : citation.end]
            assert planted.document.pages_of(citation.start, citation.end) == (citation.page,)
            assert ("crowns" in passage) or not looking
