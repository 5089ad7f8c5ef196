"""A document's sentences, which are what is cited, each with the page it stands on."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from specextend_cli.documents.document import Chunk, Document
from specextend_cli.summarize.sentences import spans


@dataclass(frozen=True, slots=True)
class Passage:
    """Characters [start, end) of the document, on `page` (or in that section)."""

    start: int
    end: int
    page: int


@dataclass(frozen=True, slots=True)
class Origin:
    """Characters [start, end) of a prompt's source, and the `passages` they come from, each with its share."""

    start: int
    end: int
    passages: Mapping[int, float]


def passages(document: Document, chunks: Iterable[Chunk]) -> list[Passage]:
    """In order. None lies in two chunks, so that what a chunk consists of depends on its text alone."""
    starts = [page.start for page in document.pages]

    def page(at: int) -> int:
        return document.pages[max(bisect_right(starts, at) - 1, 0)].number if starts else 1

    return [
        Passage(chunk.start + start, chunk.start + end, page(chunk.start + start))
        for chunk in chunks
        for start, end in spans(document.text[chunk.start : chunk.end])
    ]


def origins(found: Sequence[Passage], chunk: Chunk) -> tuple[Origin, ...]:
    """The passages of one chunk, as parts of its text."""
    first, last = (bisect_left(found, at, key=lambda passage: passage.start) for at in (chunk.start, chunk.end))
    return tuple(Origin(found[i].start - chunk.start, found[i].end - chunk.start, {i: 1.0}) for i in range(first, last))
