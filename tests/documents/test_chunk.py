from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specextend_cli.documents.chunk import chunk
from specextend_cli.documents.document import Block, Chunk, Document, Extraction


def toy(text: str) -> list[int]:
    """A token a word, three a character beyond ASCII, and merges that make counts depend on the cut."""
    return [0] * (len(text.split()) + 3 * sum(c > "\x7f" for c in text) + (len(text) % 2 if len(text) > 1 else 0))


ENCODERS: dict[str, Callable[[str], list[int]]] = {
    "toy": toy,
    "bytes": lambda text: list(text.encode()),
    "characters": lambda text: [ord(c) for c in text],
}


def document(text: str, blocks: list[Block] | None = None) -> Document:
    return Document("t", "text", text, (), tuple(blocks or ()), Extraction(1))


def blocks_of(paragraphs: list[str]) -> tuple[str, list[Block]]:
    text, blocks = "", []
    for paragraph in paragraphs:
        start = len(text)
        text += paragraph
        blocks.append(Block("heading" if paragraph.istitle() else "paragraph", start, len(text)))
        text += "\n\n"
    return text, blocks


def check(chunks: list[Chunk], text: str, encode: Callable[[str], list[int]], size: int) -> None:
    assert "".join(text[c.start : c.end] for c in chunks) == text
    assert all(a.end == b.start for a, b in pairwise(chunks))
    assert all(c.end > c.start for c in chunks)
    assert all(c.tokens == len(encode(text[c.start : c.end])) <= size for c in chunks)


words = st.text(
    st.one_of(st.sampled_from("ab .!?\n\té–漢字👩‍👧🏽"), st.characters(exclude_categories=["Cs"])), max_size=40
)


@settings(max_examples=150, deadline=None)
@given(st.lists(words.filter(bool), max_size=12), st.integers(4, 60), st.sampled_from(sorted(ENCODERS)))
def test_any_text_is_partitioned_exactly(paragraphs: list[str], size: int, encoder: str) -> None:
    text, blocks = blocks_of(paragraphs)
    encode = ENCODERS[encoder]
    check(chunk(document(text, blocks), encode, size), text, encode, size)
    check(chunk(document(text), encode, size), text, encode, size)


@settings(max_examples=80, deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=60), st.integers(1, 3))
def test_sizes_too_small_for_a_character_are_refused(text: str, size: int) -> None:
    if max((len(c.encode()) for c in text), default=0) > size:
        with pytest.raises(ValueError, match="alone needs"):
            chunk(document(text), ENCODERS["bytes"], size)
    else:
        check(chunk(document(text), ENCODERS["bytes"], size), text, ENCODERS["bytes"], size)


def test_chunks_are_balanced_and_end_with_paragraphs() -> None:
    sentence = "The water rises and the people of the valley hear the warning in time."
    text, blocks = blocks_of([" ".join([f"Number {n}."] + [sentence] * 5) for n in range(60)])
    starts, just_over = {block.start for block in blocks}, len(toy(text)) - 5
    for size in (700, just_over):
        chunks = chunk(document(text, blocks), toy, size)
        check(chunks, text, toy, size)
        assert all(one.start in starts for one in chunks)
        assert min(one.tokens for one in chunks) > 0.6 * max(one.tokens for one in chunks)
    assert len(chunks) == 2


def test_cuts_prefer_headings_and_never_follow_one() -> None:
    paragraphs = []
    for n in range(12):
        paragraphs += [f"Chapter {'ABCDEFGHIJKL'[n]}", f"Part {'ABCDEFGHIJKL'[n]}", *["word " * 40] * 4]
    text, blocks = blocks_of(paragraphs)
    chunks = chunk(document(text, blocks), toy, 420)
    assert len(chunks) > 4
    assert all(text[c.start :].startswith("Chapter") for c in chunks)


def test_sentences_then_spaces_then_anywhere() -> None:
    for text, begin in (("Some words make a sentence. " * 200, "Some"), ("word " * 500, "word")):
        assert all(text[c.start :].startswith(begin) for c in chunk(document(text), toy, 100))
    assert len(chunk(document("x" * 5000), ENCODERS["bytes"], 1000)) == 6
    assert [c.tokens for c in chunk(document("abc"), ENCODERS["bytes"], 1)] == [1, 1, 1]
    assert chunk(document(""), toy, 10) == []


@pytest.mark.parametrize("sentence", ["नदी में पानी घटा है। ", "河水干了「没有人。」", "هل تكفي الخزانات؟ ", "ወንዙ ደረቀ።"])
def test_sentences_of_other_scripts(sentence: str) -> None:
    text = sentence * 20
    made = chunk(document(text), lambda part: [*map(ord, part)], 100)
    assert all(text[: one.end].endswith(sentence) for one in made)
    assert len(made) > 1
