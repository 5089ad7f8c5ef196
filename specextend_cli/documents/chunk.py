"""Split a document into chunks of similar size that fit a token budget, at headings, paragraphs or sentences.

Cuts are planned by estimates: each block is encoded once, and a position inside a block counts in proportion. The
chunk is then encoded, and its end moved closer until it fits, so that the token counts are exact.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from itertools import accumulate, pairwise

import numpy
import regex

from specextend_cli.documents.document import Chunk, Document

Encode = Callable[[str], list[int]]

_NEAR, _FAR = 0.8, 1.15  # a cut may lie between these parts of the balanced size
_FILL = 0.92  # chunks are planned below the budget, to have a choice of cuts
_LINE = re.compile(r"\n+")
_SENTENCE = regex.compile(r"[.!?…][\"'”’)\]]*\s+|[\p{STerm}--[.!?]]+[\p{Pe}\p{Pf}]*\s*", regex.V1)
_SPACE = re.compile(r"\s+")


def chunk(document: Document, encode: Encode, size: int) -> list[Chunk]:
    """A partition of the text into spans that `encode` to at most `size` tokens each.

    Cuts prefer headings, then paragraphs, lines, sentences, spaces. ValueError when one character alone needs more
    than `size` tokens. An empty text has no chunks.
    """
    text = document.text
    places = _Places(document, encode)
    chunks: list[Chunk] = []
    start = 0
    while start < len(text):
        end, tokens = _fit(text, places, encode, start, _end(text, places, start, size), size)
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
        # In proportion, with a margin of 3%; one step gives up at most half.
        limit = start + max(1, min(length - 1, int(length * max(0.97 * size / tokens, 0.5))))
        low = start + max(1, int(_NEAR * (limit - start)))
        end = places.best(min(low, limit), limit, limit)
    return end, tokens


class _Places:
    """Where a text may be cut, and the estimated number of tokens before each position."""

    def __init__(self, document: Document, encode: Encode) -> None:
        self._text = document.text
        inner = (block.start for block in document.blocks if 0 < block.start < len(self._text))
        self._starts = [0, *inner, len(self._text)]
        counts = (len(encode(self._text[a:b])) for a, b in pairwise(self._starts))
        self._before = list(accumulate(counts, initial=0))
        headings = {block.start for block in document.blocks if block.kind == "heading"}
        # A heading stays with its text: there is no cut after it, even before another heading.
        self._paragraphs = [b for a, b in pairwise(self._starts) if a not in headings]
        self._headings = [place for place in self._paragraphs if place in headings]

    def tokens(self, position: int) -> float:
        """The estimated number of tokens before `position`."""
        return float(numpy.interp(position, self._starts, self._before))

    def position(self, tokens: float) -> int:
        """The position with about `tokens` tokens before it: the inverse of `tokens`, rounded down."""
        return int(numpy.interp(tokens, self._before, self._starts))

    def best(self, low: int, ideal: int, high: int) -> int:
        """The cut in [low, high] nearest to `ideal`, of the best kind that there is."""
        for kind in (self._headings, self._paragraphs, _LINE, _SENTENCE, _SPACE):
            if isinstance(kind, list):
                places = kind[bisect_left(kind, low) : bisect_right(kind, high)]
            else:  # the search begins before `low`, as a match that ends there begins earlier
                ends = (match.end() for match in kind.finditer(self._text, max(low - 8, 0), high))
                places = [end for end in ends if low <= end <= high]
            if places:
                return min(places, key=lambda place: abs(place - ideal))
        return ideal
