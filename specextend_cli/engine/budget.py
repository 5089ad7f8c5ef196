"""The gate: how large a tree pays, and whether drafting pays at all, by this run's own clock.

A verification of n nodes costs c(n) seconds, a draft d; the tree's best n nodes promise 1 + s(n) tokens. The budget
cuts the tree where (1 + s(n)) / (d + c(n)) is largest, n = 1 being plain decoding. Promises are held to account twice:
a model's forwards must beat what is to be had without them, and that, n-grams, must beat plain decoding. While either
does not, it is tried again only as long as such losses stay under a small share of the time spent.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import log2
from typing import NamedTuple

from specextend_cli.engine.config import TreeShape
from specextend_cli.engine.tree import DraftTree

_SIZES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)
_SLOPE = 0.1  # a node's share of a plain step's cost, assumed until measured: 0.02 on a GPU, 0.2 on few cores
_MARGIN = 1.04  # a tree must promise this much more than plain decoding: clocks and promises are noisy
_FIRST = 2  # plain steps before the first draft, at every new context length
_CHEAP_STEPS = 4  # steps without a model's forwards before the first with them
_WORST = 8  # plain steps; a single step never counts for more
_MEMORY = 0.998  # a step: how fast losses are forgiven
_REFRESH = 96  # steps after which a plain step is measured again


class _Cost(NamedTuple):
    """Mean nodes and seconds of verifications of about one size, and how many were measured."""

    nodes: float
    seconds: float
    samples: int


@dataclass
class CostModel:
    """Seconds of a verification by its node count, at about the present context length. Outlives a sequence.

    The first measurements hold warm-up, so the fastest of them counts; later ones fade into a mean, in which a single
    slow moment counts for three times the known cost at most.
    """

    _costs: dict[int, dict[int, _Cost]] = field(default_factory=dict)

    def learn(self, nodes: int, length: int, seconds: float) -> None:
        """One verification of `nodes` nodes over `length` committed tokens took `seconds`."""
        costs = self._costs.setdefault(_context(length), {})
        size = _SIZES[min(bisect_left(_SIZES, nodes), len(_SIZES) - 1)]
        known = costs.get(size, _Cost(nodes, seconds, 0))
        if known.samples < _FIRST:
            settled = min(known.seconds, seconds)
        else:
            settled = known.seconds + 0.1 * (min(seconds, 3 * known.seconds) - known.seconds)
        costs[size] = _Cost(known.nodes + 0.25 * (nodes - known.nodes), settled, known.samples + 1)

    def known(self, length: int) -> bool:
        """Whether plain decoding was measured often enough at about this length."""
        plain = self._costs.get(_context(length), {}).get(1)
        return plain is not None and plain.samples >= _FIRST

    def plain(self, length: int) -> float:
        """Seconds of a plain step; 0.0 until it is known at about this length."""
        return self._costs[_context(length)][1].seconds if self.known(length) else 0.0

    def seconds(self, nodes: int, length: int) -> float:
        """Seconds of a verification: between measured sizes by a straight line, beyond them by a node's usual share."""
        costs = sorted(self._costs.get(_context(length), {}).values())
        if not costs:
            return 0.0
        if nodes <= costs[0].nodes:
            return costs[0].seconds
        for low, high in pairwise(costs):
            if nodes <= high.nodes:
                return low.seconds + (high.seconds - low.seconds) * (nodes - low.nodes) / (high.nodes - low.nodes)
        last = costs[-1]
        return last.seconds + (nodes - last.nodes) * self._share(length) * costs[0].seconds

    def _share(self, length: int) -> float:
        """What a node costs of a plain step: as measured at the nearest length where trees were, or as assumed."""
        measured = [context for context, costs in self._costs.items() if 1 in costs and len(costs) > 1]
        if not measured:
            return _SLOPE
        costs = self._costs[min(measured, key=lambda context: abs(context - _context(length)))]
        plain, largest = costs[1], costs[max(costs)]
        return max(largest.seconds / plain.seconds - 1, 0.0) / (largest.nodes - plain.nodes)


@dataclass
class Budget:
    """Decides each step's tree. With `gate` off, every step drafts the full shape: for measuring the gate's worth.

    Outlives a sequence, so that a drafter which did not pay on the last chunk of a document is not tried at leisure on
    the next.
    """

    shape: TreeShape = field(default_factory=TreeShape)
    gate: bool = True
    costs: CostModel = field(default_factory=CostModel)
    _steps: int = field(default=0, init=False)
    _drafts: int = field(default=0, init=False)
    _elapsed: float = field(default=0.0, init=False)
    _forwards: _Account = field(default_factory=lambda: _Account(0.8, 0.012), init=False)
    _copies: _Account = field(default_factory=lambda: _Account(0.97, 0.01), init=False)  # pay seldom, then much
    _cheap: _Rate = field(default_factory=lambda: _Rate(), init=False)
    _promised: float = field(default=1.0, init=False)
    _kept: float = field(default=1.0, init=False)

    def next_shape(self, length: int) -> TreeShape:
        """What to ask of the drafter; one node means a plain step and no draft, no forwards a draft without a model."""
        if not self.gate:
            return self.shape
        self._steps += 1
        if not self.costs.known(length) or self._steps % _REFRESH == 0:
            return replace(self.shape, nodes=1)
        measured = self._cheap.samples >= _CHEAP_STEPS and self._steps % _REFRESH > 2
        if measured and self._forwards.may_spend(self._elapsed):
            return self.shape
        if self._copies.may_spend(self._elapsed):
            return replace(self.shape, forwards=0)
        return replace(self.shape, nodes=1)

    def cut(self, tree: DraftTree, draft_seconds: float, length: int) -> DraftTree:
        """The tree's best nodes, as many as pay."""
        if not self.gate or len(tree) == 1:
            return tree.best(self.shape.nodes)
        scores = sorted(tree.scores.tolist(), reverse=True)
        trust = min(self._kept / self._promised, 1.25)
        best, best_rate = 1, _MARGIN / (draft_seconds + self.costs.seconds(1, length))
        promised, at = 1.0, 1
        for size in (*(size for size in _SIZES[1:] if size < len(scores)), len(scores)):
            promised += trust * sum(scores[at:size])
            at = size
            rate = promised / (draft_seconds + self.costs.seconds(size, length))
            if rate > best_rate:
                best, best_rate = size, rate
        return tree.best(best)

    def learn(
        self, tree: DraftTree, shape: TreeShape, accepted: int, draft_seconds: float, verify_seconds: float, length: int
    ) -> None:
        """What the step that was granted `shape` cost and gave. `accepted` counts the tokens it emitted."""
        self.costs.learn(len(tree), length, verify_seconds)
        if not self.gate:
            return
        # Both sums drift back to trust, so that a drafter that failed on one passage is tried again on the next.
        self._promised = 0.95 * self._promised + 0.05
        self._kept = 0.95 * self._kept + 0.05
        if len(tree) > 1:
            self._promised += float(tree.scores.sum()) - 1
            self._kept += accepted - 1
        # A hiccup is not the drafter's doing: nothing counts for more than a few plain steps.
        plain = self.costs.plain(length)
        spent = min(draft_seconds + verify_seconds, _WORST * plain) if plain else draft_seconds + verify_seconds
        self._elapsed = _MEMORY * self._elapsed + spent
        self._forwards.forgive()
        self._copies.forgive()
        if shape.nodes == 1:
            if plain and not self._copies.pays:
                self._cheap.learn(spent, accepted)  # plain decoding is what there is without forwards
        elif shape.forwards == 0:
            self._cheap.learn(spent, accepted)
            self._copies.settle(spent, accepted * plain)
        else:
            self._drafts += 1
            if self._drafts > 1:  # the first is warm-up
                self._forwards.settle(spent, accepted * self._cheap.seconds_per_token)

    def charge(self, seconds: float) -> None:
        """What drafting costs besides: choosing a working set."""
        self._forwards.spent += seconds


@dataclass
class _Account:
    """What a way of drafting has cost and brought lately, in seconds, and what was lost on it while it did not pay."""

    memory: float
    tuition: float
    """Share of the time that may be lost to trying."""
    spent: float = 0.0
    earned: float = 0.0
    lost: float = 0.0
    last: float = 0.0

    @property
    def pays(self) -> bool:
        return self.earned >= self.spent

    def may_spend(self, elapsed: float) -> bool:
        """It pays, or another loss like the last one can be borne."""
        return self.pays or self.lost + self.last <= self.tuition * elapsed

    def settle(self, spent: float, earned: float) -> None:
        """A step's cost, and what the same tokens would have cost otherwise."""
        self.spent = self.memory * self.spent + spent
        self.earned = self.memory * self.earned + earned
        if not self.pays:
            loss = max(spent - earned, 0.0)
            self.lost += loss
            self.last = max(loss, 0.5 * self.last)

    def forgive(self) -> None:
        """A step has passed."""
        self.lost *= _MEMORY


@dataclass
class _Rate:
    """Seconds a token, fading: what a drafter's forwards have to beat."""

    seconds: float = 0.0
    tokens: float = 0.0
    samples: int = 0

    def learn(self, seconds: float, tokens: int) -> None:
        self.seconds = 0.95 * self.seconds + seconds
        self.tokens = 0.95 * self.tokens + tokens
        self.samples += 1

    @property
    def seconds_per_token(self) -> float:
        return self.seconds / self.tokens


def _context(length: int) -> int:
    """Lengths within about 19% of each other share measurements."""
    return round(2 * log2(max(length, 1)))
