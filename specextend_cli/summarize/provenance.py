"""A document's sentences, which are what is cited, and which of them a text was made from."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from specextend_cli.documents.document import Chunk, Document
from specextend_cli.summarize.sentences import spans


@dataclass(frozen=True, slots=True)
class DocumentSentence:
    """Characters [start, end) of the document, on `page` (or in that section)."""

    start: int
    end: int
    page: int


@dataclass(frozen=True, slots=True)
class SourceSpan:
    """Characters [start, end) of a text, and the document sentences they come from, by number, each with its share."""

    start: int
    end: int
    sentences: Mapping[int, float]


@dataclass(frozen=True)
class Provenance:
    """What a text was made from: its `spans` in order, and all document sentences that were read for it, `read`."""

    spans: tuple[SourceSpan, ...] = ()
    read: range = range(0)


def document_sentences(document: Document, chunks: Iterable[Chunk]) -> list[DocumentSentence]:
    """In order. None lies in two chunks, so that what a chunk consists of depends on its text alone."""
    starts = [page.start for page in document.pages]

    def page(at: int) -> int:
        return document.pages[max(bisect_right(starts, at) - 1, 0)].number if starts else 1

    return [
        DocumentSentence(chunk.start + start, chunk.start + end, page(chunk.start + start))
        for chunk in chunks
        for start, end in spans(document.text[chunk.start : chunk.end])
    ]


def provenance_of(chunk: Chunk, sentences: Sequence[DocumentSentence]) -> Provenance:
    """The provenance of a chunk's text: each of its sentences is one span."""
    read = range(*(bisect_left(sentences, at, key=lambda one: one.start) for at in (chunk.start, chunk.end)))
    own = ((sentences[i].start - chunk.start, sentences[i].end - chunk.start, {i: 1.0}) for i in read)
    return Provenance(tuple(SourceSpan(*one) for one in own), read)


def join_texts(parts: Sequence[tuple[str, Provenance]], gap: str) -> tuple[str, Provenance]:
    """Texts with a gap between them, and the provenance of the whole."""
    text, joined = "", list[SourceSpan]()
    for piece, own in parts:
        text += gap * bool(text)
        joined += [replace(one, start=len(text) + one.start, end=len(text) + one.end) for one in own.spans]
        text += piece
    return text, Provenance(tuple(joined), range(parts[0][1].read.start, parts[-1][1].read.stop))
