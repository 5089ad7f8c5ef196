"""A document's sentences, which are what is cited, each with the page it stands on."""

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
    """Characters [start, end) of a prompt's source, and the `passages` they come from, each with its share."""

    start: int
    end: int
    passages: Mapping[int, float]


@dataclass(frozen=True)
class Provenance:
    """What a prompt's source is made of: its `origins` in order, and all passages that were read for it, `read`."""

    origins: tuple[SourceSpan, ...] = ()
    read: range = range(0)


def passages(document: Document, chunks: Iterable[Chunk]) -> list[DocumentSentence]:
    """In order. None lies in two chunks, so that what a chunk consists of depends on its text alone."""
    starts = [page.start for page in document.pages]

    def page(at: int) -> int:
        return document.pages[max(bisect_right(starts, at) - 1, 0)].number if starts else 1

    return [
        DocumentSentence(chunk.start + start, chunk.start + end, page(chunk.start + start))
        for chunk in chunks
        for start, end in spans(document.text[chunk.start : chunk.end])
    ]


def material(found: Sequence[DocumentSentence], chunk: Chunk) -> Provenance:
    """The passages of one chunk, as parts of its text."""
    first, last = (bisect_left(found, at, key=lambda passage: passage.start) for at in (chunk.start, chunk.end))
    parts = (SourceSpan(found[i].start - chunk.start, found[i].end - chunk.start, {i: 1.0}) for i in range(first, last))
    return Provenance(tuple(parts), range(first, last))


def joined(parts: Iterable[tuple[str, Provenance]], gap: str) -> tuple[str, Provenance]:
    """Texts that follow each other with a gap between them, and what they are made of together."""
    text = ""
    origins: list[SourceSpan] = []
    reads: list[range] = []
    for piece, own in parts:
        text += gap * bool(text)
        origins += [replace(one, start=len(text) + one.start, end=len(text) + one.end) for one in own.origins]
        reads.append(own.read)
        text += piece
    return text, Provenance(tuple(origins), range(reads[0].start, reads[-1].stop) if reads else range(0))
