"""The gate: how large a tree pays, and whether drafting pays at all, by this run's own clock.

A verification of n nodes costs c(n) seconds, a draft d; the tree's best n nodes promise 1 + s(n) tokens. The budget cuts
the tree where (1 + s(n)) / (d + c(n)) is largest, n = 1 being plain decoding. When drafting itself loses to plain
decoding, it pauses, and tries again after pauses that double, so that what trying costs stays bounded.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field, replace
from math import log2

from specextend_cli.engine.config import TreeShape
from specextend_cli.engine.tree import DraftTree

_SIZES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)
_SLOPE = 0.02  # a node's share of a plain step's cost, assumed until measured
_PLAIN_STEPS = 2  # measured before the first draft
_REFRESH = 96  # steps after which a plain step is measured again


@dataclass
class CostModel:
    """Seconds of a verification by its node count, at about the present context length. Outlives a sequence.

    Measurements fade, and a single one counts for at most twice or half of what was known: the clock is noisy.
    """

    _points: dict[int, dict[int, tuple[float, float]]] = field(default_factory=dict)

    def learn(self, nodes: int, length: int, seconds: float) -> None:
        """One verification of `nodes` nodes over `length` committed tokens took `seconds`."""
        points = self._points.setdefault(_context(length), {})
        size = _SIZES[min(bisect_left(_SIZES, nodes), len(_SIZES) - 1)]
        mean_nodes, known = points.get(size, (float(nodes), seconds))
        seconds = min(max(seconds, known / 2), known * 2)
        points[size] = (mean_nodes + 0.25 * (nodes - mean_nodes), known + 0.25 * (seconds - known))

    def plain(self, length: int) -> float:
        """Seconds of a plain step; 0.0 when none was measured at about this length."""
        return self._points.get(_context(length), {}).get(1, (1.0, 0.0))[1]

    def seconds(self, nodes: int, length: int) -> float:
        """Seconds of a verification: between measured sizes by a straight line, beyond them by the assumed slope."""
        points = sorted(self._points.get(_context(length), {}).values())
        if not points:
            return 0.0
        if nodes <= points[0][0]:
            return points[0][1]
        for (n0, c0), (n1, c1) in zip(points, points[1:], strict=False):
            if nodes <= n1:
                return c0 + (c1 - c0) * (nodes - n0) / (n1 - n0)
        last_nodes, last = points[-1]
        return last + (nodes - last_nodes) * _SLOPE * points[0][1]


@dataclass
class Budget:
    """Decides each step's tree. With `gate` off, every step drafts the full shape: for measuring what the gate is worth."""

    shape: TreeShape = field(default_factory=TreeShape)
    gate: bool = True
    costs: CostModel = field(default_factory=CostModel)
    _steps: int = field(default=0, init=False)
    _pause: int = field(default=0, init=False)
    _next_pause: int = field(default=8, init=False)
    _seconds: float = field(default=0.0, init=False)
    _plain_equivalent: float = field(default=0.0, init=False)
    _trial: int = field(default=0, init=False)
    _promised: float = field(default=1.0, init=False)
    _kept: float = field(default=1.0, init=False)

    def next_shape(self, length: int) -> TreeShape:
        """What to ask of the drafter; one node means a plain step and no draft."""
        if not self.gate:
            return self.shape
        plain = replace(self.shape, nodes=1)
        self._steps += 1
        if self._pause > 0:
            self._pause -= 1
            return plain
        unknown = not self.costs.plain(length) or self._steps <= _PLAIN_STEPS
        return plain if unknown or self._steps % _REFRESH == 0 else self.shape

    def cut(self, tree: DraftTree, draft_seconds: float, length: int) -> DraftTree:
        """The tree's best nodes, as many as pay."""
        if not self.gate or len(tree) == 1:
            return tree.best(self.shape.nodes)
        scores = sorted(tree.scores.tolist(), reverse=True)
        trust = min(self._kept / self._promised, 1.25)
        best, best_rate, promised, at = 1, 0.0, 1.0, 1
        for size in (*(size for size in _SIZES if size < len(scores)), len(scores)):
            promised += trust * sum(scores[at:size])
            at = size
            rate = promised / (draft_seconds + self.costs.seconds(size, length))
            if rate > best_rate:
                best, best_rate = size, rate
        return tree.best(best)

    def learn(
        self, tree: DraftTree, accepted: int, draft_seconds: float, verify_seconds: float, length: int, *, drafted: bool
    ) -> None:
        """What a step cost and gave. `drafted`: whether a drafter was asked, even if its tree was cut to the root."""
        self.costs.learn(len(tree), length, verify_seconds)
        if not self.gate:
            return
        # Both sums drift back to trust, so that a drafter that failed on one passage is tried again on the next.
        self._promised = 0.95 * self._promised + 0.05
        self._kept = 0.95 * self._kept + 0.05
        if len(tree) > 1:
            self._promised += float(tree.scores.sum()) - 1
            self._kept += accepted - 1
        if not drafted:
            return
        self._trial += 1
        self._seconds = 0.8 * self._seconds + draft_seconds + verify_seconds
        self._plain_equivalent = 0.8 * self._plain_equivalent + accepted * self.costs.plain(length)
        if self._trial >= 4 and self._seconds > self._plain_equivalent:
            self._pause, self._next_pause = self._next_pause, min(2 * self._next_pause, 128)
            self._seconds = self._plain_equivalent = 0.0
            self._trial = 0
        elif self._trial >= 16:
            self._next_pause = 8


def _context(length: int) -> int:
    """Lengths within about 19% of each other share measurements."""
    return round(2 * log2(max(length, 1)))
