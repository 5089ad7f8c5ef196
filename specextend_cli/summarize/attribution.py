"""The target's attention while it wrote a sentence, by segment of the prompt's source."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from specextend_cli.engine.events import Step

if TYPE_CHECKING:
    from torch import Tensor

    from specextend_cli.summarize.text_stream import TextStream

_KEPT = 24  # segments of a sentence, the largest ones; the others have hardly any attention


@dataclass(frozen=True, slots=True)
class SentenceAttention:
    """Characters [start, end) of an answer; `shares` of attention by segment, the largest ones; at most 1 in all."""

    start: int
    end: int
    shares: Mapping[int, float]


def pack(attention: Iterable[SentenceAttention]) -> str:
    """The attention of an answer's sentences as JSON."""
    rounded = ([one.start, one.end, {k: round(v, 4) for k, v in one.shares.items()}] for one in attention)
    return json.dumps(list(rounded))


def unpack(text: str) -> list[SentenceAttention]:
    """The inverse of `pack`; none from damaged text."""
    try:
        return [
            SentenceAttention(int(start), int(end), {int(k): float(v) for k, v in shares.items()})
            for start, end, shares in json.loads(text)
        ]
    except (ValueError, TypeError, AttributeError):
        return []


class AttributionTracker:
    """Maps the attention of one answer's tokens to the sentences that its stream releases."""

    def __init__(self) -> None:
        self._rows: list[Tensor | None] = []
        self._taken = 0

    def add(self, step: Step) -> None:
        """Keep the attention of each token of a step."""
        self._rows += [None] * len(step.tokens) if step.attribution is None else step.attribution

    def take(self, stream: TextStream) -> tuple[SentenceAttention, ...]:
        """The attention of the sentences released since the last call."""
        found = []
        for start, end, first, last in stream.origins[self._taken :]:
            rows = [row for row in self._rows[first:last] if row is not None]
            if rows:
                mean = sum(rows[1:], rows[0]) / len(rows)
                best = mean.topk(min(_KEPT, len(mean)))
                shares = dict(zip(best.indices.tolist(), best.values.tolist(), strict=True))
                found.append(SentenceAttention(start, end, shares))
        self._taken = len(stream.origins)
        return tuple(found)
