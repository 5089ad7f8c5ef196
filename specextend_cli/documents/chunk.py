"""Cut a document into spans that fit a token budget: nothing lost, nothing twice, sizes alike, cuts where text pauses.

Planning works on estimates: each block is encoded once, and a place inside a block counts in proportion. A cut is
then checked by encoding the chunk itself, and moved closer until the chunk fits, so the counts given are exact.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from itertools import accumulate, pairwise

import regex

from specextend_cli.documents.document import Chunk, Document

Encode = Callable[[str], list[int]]

_NEAR, _FAR = 0.8, 1.15  # a cut may lie between these parts of the balanced size
_FILL = 0.92  # plan chunks a little under the budget, so that there is a choice of cuts
_LINE = re.compile(r"\n+")
_SENTENCE = regex.compile(r"[.!?…][\"'”’)\]]*\s+|[\p{STerm}--[.!?]]+[\p{Pe}\p{Pf}]*\s*", regex.V1)
_SPACE = re.compile(r"\s+")


def chunk(document: Document, encode: Encode, size: int) -> list[Chunk]:
    """A partition of the text into spans of at most `size` tokens each, as `encode` counts them on their own.

    Cuts prefer headings, then paragraphs, lines, sentences, spaces. ValueError when one character alone needs more
    than `size` tokens. An empty text has no chunks.
    """
    text = document.text
    places = _Places(document, encode)
    chunks: list[Chunk] = []
    start = 0
    while start < len(text):
        end = _end(text, places, start, size)
        end, tokens = _fit(text, places, encode, start, end, size)
        chunks.append(Chunk(start, end, tokens))
        start = end
    return chunks


def _end(text: str, places: _Places, start: int, size: int) -> int:
    """Where the chunk from `start` should end, by the estimates."""
    rest = places.tokens(len(text)) - places.tokens(start)
    if rest <= size:
        return len(text)
    target = rest / max(math.ceil(rest / (_FILL * size)), 2)
    here = places.tokens(start)
    low, ideal = places.position(here + _NEAR * target), places.position(here + target)
    high = places.position(here + min(_FAR * target, size))
    return places.best(max(low, start + 1), max(ideal, start + 1), max(high, start + 1))


def _fit(text: str, places: _Places, encode: Encode, start: int, end: int, size: int) -> tuple[int, int]:
    """`end` or the best place before it with which the chunk fits, and the chunk's exact count."""
    while (tokens := len(encode(text[start:end]))) > size:
        length = end - start
        if length == 1:
            raise ValueError(f"{text[start]!r} alone needs {tokens} tokens, and a chunk may have {size}")
        # Proportion says where to cut, a little closer for certainty; half is the most that one step gives up.
        limit = start + max(1, min(length - 1, int(length * max(0.97 * size / tokens, 0.5))))
        low = start + max(1, int(_NEAR * (limit - start)))
        end = places.best(min(low, limit), limit, limit)
    return end, tokens


class _Places:
    """Where a text may be cut, and about how many tokens lie before each place."""

    def __init__(self, document: Document, encode: Encode) -> None:
        self._text = document.text
        inner = (block.start for block in document.blocks if 0 < block.start < len(self._text))
        self._starts = [0, *inner, len(self._text)]
        counts = (len(encode(self._text[a:b])) for a, b in pairwise(self._starts))
        self._before = list(accumulate(counts, initial=0))
        headings = {block.start for block in document.blocks if block.kind == "heading"}
        # A heading stays with what it heads: the place after it, even where another heading follows, is no place.
        self._paragraphs = [b for a, b in pairwise(self._starts) if a not in headings]
        self._headings = [place for place in self._paragraphs if place in headings]

    def tokens(self, position: int) -> float:
        """About how many tokens precede `position`."""
        block = min(bisect_right(self._starts, position), len(self._starts) - 1) - 1
        start, end = self._starts[block : block + 2]
        share = (position - start) / max(end - start, 1)
        return self._before[block] + share * (self._before[block + 1] - self._before[block])

    def position(self, tokens: float) -> int:
        """The place that about `tokens` tokens precede: the inverse of `tokens`, rounded down."""
        block = min(bisect_right(self._before, tokens), len(self._starts) - 1) - 1
        start, end = self._starts[block : block + 2]
        share = (tokens - self._before[block]) / max(self._before[block + 1] - self._before[block], 1)
        return min(start + int(share * (end - start)), len(self._text))

    def best(self, low: int, ideal: int, high: int) -> int:
        """The best cut in [low, high]: of the best kind there is, the nearest to `ideal`."""
        for places in self._kinds(low, high):
            if places:
                return min(places, key=lambda place: abs(place - ideal))
        return ideal

    def _kinds(self, low: int, high: int) -> Iterator[list[int]]:
        for places in (self._headings, self._paragraphs):
            yield places[bisect_left(places, low) : bisect_right(places, high)]
        for pattern in (_LINE, _SENTENCE, _SPACE):
            # The text is searched a little before `low`: a match that ends there began earlier.
            found = pattern.finditer(self._text, max(low - 8, 0), high)
            yield [match.end() for match in found if low <= match.end() <= high]
