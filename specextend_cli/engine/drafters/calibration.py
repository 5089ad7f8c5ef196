"""How often promised tokens come true, learnt during decoding, so that scores of different sources compare."""

from __future__ import annotations

from collections import defaultdict
from typing import Generic, TypeVar

K = TypeVar("K")

_FADE = 0.99  # decay of evidence
_PRIOR = 4.0  # promised tokens that the prior counts for


class Calibration(Generic[K]):
    """Tokens that came true per token promised, by kind of promise."""

    def __init__(self) -> None:
        self._promised: dict[K, float] = defaultdict(float)
        self._true: dict[K, float] = defaultdict(float)

    def rate(self, kind: K, expected: float = 1.0) -> float:
        """True tokens per promised token; `expected` without evidence."""
        return (self._true[kind] + _PRIOR * expected) / (self._promised[kind] + _PRIOR)

    def learn(self, kind: K, came_true: bool, promise: float = 1.0) -> None:
        """Add one token that was promised with this probability."""
        self._promised[kind] = _FADE * self._promised[kind] + promise
        self._true[kind] = _FADE * self._true[kind] + came_true
