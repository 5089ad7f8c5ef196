"""Where the target looked while it wrote a sentence: its attention, by segment of the prompt's source."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from specextend_cli.engine.events import Event, Looked, Step

if TYPE_CHECKING:
    from torch import Tensor

    from specextend_cli.summarize.text_stream import TextStream

_DEPTH = 0.58  # where in a model's layers two look: docs/trust.md says why
_KEPT = 24  # segments of a sentence; the rest holds next to nothing


@dataclass(frozen=True, slots=True)
class SentenceAttention:
    """Characters [start, end) of an answer; `shares` of attention by segment, the largest ones; at most 1 in all."""

    start: int
    end: int
    shares: Mapping[int, float]


def attribution_layers(layers: int) -> tuple[int, ...]:
    """The layers of a model whose attention tells what a token is taken from."""
    first = int(_DEPTH * layers)
    return tuple(range(first, min(first + 2, layers)))


def pack(looks: Iterable[SentenceAttention]) -> str:
    """Looks as text, to be kept beside the answer."""
    rounded = ([one.start, one.end, {k: round(v, 4) for k, v in one.shares.items()}] for one in looks)
    return json.dumps(list(rounded))


def unpack(text: str) -> list[SentenceAttention]:
    """The inverse of `pack`; none from what is damaged."""
    try:
        return [
            SentenceAttention(int(start), int(end), {int(k): float(v) for k, v in shares.items()})
            for start, end, shares in json.loads(text)
        ]
    except (ValueError, TypeError, AttributeError):
        return []


class AttributionTracker:
    """Takes the engine's events of one answer in, gives a look for each sentence that its stream released."""

    def __init__(self) -> None:
        self._rows: list[Tensor | None] = []
        self._waiting: Tensor | None = None
        self._told = 0

    def add(self, event: Event) -> None:
        """Keep what was looked at for each token."""
        if isinstance(event, Looked):
            self._waiting = event.shares
        elif isinstance(event, Step):
            waiting, self._waiting = self._waiting, None
            self._rows += [None if waiting is None else waiting[i] for i in range(len(event.tokens))]

    def looks(self, stream: TextStream) -> Iterator[SentenceAttention]:
        """Of what was released since the last time."""
        for start, end, first, last in stream.origins[self._told :]:
            rows = [row for row in self._rows[first:last] if row is not None]
            if rows:
                mean = sum(rows[1:], rows[0]) / len(rows)
                best = mean.topk(min(_KEPT, len(mean)))
                yield SentenceAttention(start, end, dict(zip(best.indices.tolist(), best.values.tolist(), strict=True)))
        self._told = len(stream.origins)
