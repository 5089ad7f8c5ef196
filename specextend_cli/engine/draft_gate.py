"""The gate: how far to draft, how large a tree pays, and whether drafting pays at all, by this run's own clock.

A verification of n nodes costs c(n) seconds; the tree's best n nodes promise 1 + s(n) tokens. Tokens a second are most
where every step makes tokens - rate * seconds largest (Dinkelbach 1967), so the tree is cut where a node promises less
than its verification costs at the going rate. How many forwards to draft with is learnt: each number has a rate of its
own, and the best is used. Promises are weighed by what such promises were worth; and what drafting really cost and
brought is kept in one account, whose losses against plain decoding stay under a small share of the time spent.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import log2
from typing import NamedTuple

from specextend_cli.engine.config import TreeShape
from specextend_cli.engine.tree import DraftTree

_SIZES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)
_SLOPE = 0.1  # a node's share of a plain step's cost, assumed until measured: 0.02 on a GPU, 0.2 on few cores
_MARGIN = 0.04  # plain steps that a tree must win by its promise: clocks and promises are noisy
_FIRST = 2  # plain steps before the first draft, at every new context length
_TRIALS = 3  # steps with so many forwards before their rate is known
_WORST = 8  # plain steps; a single step never counts for more
_HIGHEST_FLOOR = 0.25  # of a node's score: costs may be mistaken
_CREDIT = 2.0  # plain steps that may be lost before anything was won, ...
_RESERVE = 0.75  # ... of which so many not on trials of what is not the best
_TUITION = 0.008  # of the time, that may be lost besides
_MEMORY = 0.998  # a step: how fast gains and losses are forgotten
_REFRESH = 96  # steps after which a plain step is measured again
_CHOOSING = 0.01  # of the time, that choosing working sets anew may take


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
        costs = sorted(self._trusted(length))
        if not costs:
            return 0.0
        if nodes <= costs[0].nodes:
            return costs[0].seconds
        for low, high in pairwise(costs):
            if nodes <= high.nodes:
                return low.seconds + (high.seconds - low.seconds) * (nodes - low.nodes) / (high.nodes - low.nodes)
        last = costs[-1]
        return last.seconds + (nodes - last.nodes) * self.share(length) * costs[0].seconds

    def _trusted(self, length: int) -> Iterator[_Cost]:
        """What was measured; of a size that was verified once, which may hold warm-up, no more than is usual."""
        plain = self.plain(length)
        for cost in self._costs.get(_context(length), {}).values():
            usual = plain * (1 + _SLOPE * (cost.nodes - 1)) if plain else cost.seconds
            yield cost if cost.samples >= _FIRST else cost._replace(seconds=min(cost.seconds, usual))

    def share(self, length: int) -> float:
        """What a node costs of a plain step: as measured at the nearest length where trees were, or as assumed."""
        settled = {
            context: {size: cost for size, cost in costs.items() if cost.samples >= _FIRST}
            for context, costs in self._costs.items()
        }
        measured = [context for context, costs in settled.items() if 1 in costs and len(costs) > 1]
        if not measured:
            return _SLOPE
        costs = settled[min(measured, key=lambda context: abs(context - _context(length)))]
        plain, largest = costs[1], costs[max(costs)]
        return max(largest.seconds / plain.seconds - 1, 0.0) / (largest.nodes - plain.nodes)


@dataclass
class DraftGate:
    """Decides each step's tree. With `gate` off, every step drafts the full shape: for measuring the gate's worth.

    Outlives a sequence, so that a drafter which did not pay on the last chunk of a document is not tried at leisure on
    the next.
    """

    shape: TreeShape = field(default_factory=TreeShape)
    gate: bool = True
    costs: CostModel = field(default_factory=CostModel)
    _steps: int = field(default=0, init=False)
    _rungs: dict[int, _DepthStats] = field(init=False)  # by number of forwards, ascending
    _account: _RegretBudget = field(default_factory=lambda: _RegretBudget(), init=False)
    _promised: float = field(default=1.0, init=False)
    _kept: float = field(default=1.0, init=False)
    _drafted: _DepthStats | None = field(default=None, init=False)  # by the last step
    _rest: float = field(default=0.0, init=False)  # plain steps before the next choice

    def __post_init__(self) -> None:
        most = min(self.shape.depth, self.shape.forwards)
        powers = (2**n for n in range(most.bit_length()))
        self._rungs = {forwards: _DepthStats() for forwards in sorted({0, *powers, most})}

    def next_shape(self, length: int) -> TreeShape:
        """What to ask of the drafter; one node means a plain step and no draft, no forwards a draft without a model."""
        if not self.gate:
            return self.shape
        self._steps += 1
        plain = replace(self.shape, nodes=1)
        if not self.costs.known(length) or self._steps % _REFRESH == 0:
            return plain
        best = self._best
        trial = self._trial(best)
        if trial is not None and self._account.bears(self._rungs[trial].loss + _RESERVE):
            forwards = trial
        elif self._rungs[best].gain >= 1 and self._account.bears(self._rungs[best].loss):
            forwards = best
        else:
            return plain
        # Half of what a node costs: trust may rise, and costs are noisy.
        return replace(self.shape, forwards=forwards, floor=min(0.5 * self.costs.share(length), _HIGHEST_FLOOR))

    def cut(self, tree: DraftTree, length: int) -> DraftTree:
        """The tree's best nodes, as many as pay."""
        tree = tree.best(self.shape.nodes)
        if not self.gate or len(tree) == 1:
            return tree
        scores = sorted(tree.scores.tolist(), reverse=True)
        rate = max(self._rungs[self._best].gain, 1.0) / max(self.costs.plain(length), 1e-9)
        best, most, worth, at = 1, _MARGIN, 0.0, 1
        for size in (*(size for size in _SIZES[1:] if size < len(scores)), len(scores)):
            worth += self._trust * sum(scores[at:size])
            at = size
            profit = worth - rate * (self.costs.seconds(size, length) - self.costs.seconds(1, length))
            if profit > most:
                best, most = size, profit
        return tree.best(best)

    def learn(
        self, tree: DraftTree, shape: TreeShape, accepted: int, draft_seconds: float, verify_seconds: float, length: int
    ) -> None:
        """What the step that was granted `shape` cost and gave. `accepted` counts the tokens it emitted."""
        self.costs.learn(len(tree), length, verify_seconds)
        if not self.gate:
            return
        promised = float(tree.scores.sum()) - 1 if len(tree) > 1 else 0.0
        expected = 1 + self._trust * promised
        # Both sums drift back to trust, so that a drafter that failed on one passage is tried again on the next.
        self._promised = 0.95 * self._promised + 0.05 + promised
        self._kept = 0.95 * self._kept + 0.05 + (accepted - 1 if len(tree) > 1 else 0)
        plain = self.costs.plain(length)
        if not plain:
            return
        # A hiccup is not the drafter's doing: verification counts as it usually is, a draft as a few plain steps.
        spent = min((draft_seconds + self.costs.seconds(len(tree), length)) / plain, _WORST)
        self._account.pass_time(spent)
        self._rest -= spent
        self._drafted = None
        if shape.nodes == 1:
            return
        self._drafted = rung = self._rungs[shape.forwards]
        rung.learn(expected, spent)
        won = accepted - spent
        self._account.settle(won if rung.samples > 1 else max(won, -1.0))  # the first holds warm-up
        self._wait(rung)

    def affords_choice(self) -> bool:
        """Whether choosing a working set after the next step leaves choices a small share of the time."""
        return not self.gate or self._rest <= 1

    def charge(self, seconds: float, length: int) -> None:
        """What the last draft cost besides: choosing a working set."""
        plain = self.costs.plain(length)
        if self.gate and plain and self._drafted is not None:
            spent = min(seconds / plain, _WORST)
            self._rest = min(spent, 1.0) / _CHOOSING  # of one slow moment, not for hundreds of steps
            self._drafted.spent += spent
            self._account.settle(-spent)
            self._wait(self._drafted)

    @property
    def _trust(self) -> float:
        """What a promised token is worth."""
        return min(self._kept / self._promised, 1.25)

    @property
    def _best(self) -> int:
        """The number of forwards with the best rate."""
        return max(self._rungs, key=lambda forwards: self._rungs[forwards].gain)

    def _trial(self, best: int) -> int | None:
        """The number of forwards next to the best that is to be tried now, the best itself where it does not pay."""
        ladder = list(self._rungs)
        at = ladder.index(best)
        near = ladder[max(at - 1, 0) : at + 2]
        for forwards in near:
            if self._rungs[forwards].samples < _TRIALS:
                return forwards
        if self._rungs[best].gain >= 1:
            near.remove(best)
        longest = min(near, key=lambda forwards: self._rungs[forwards].due, default=best)
        return longest if self._rungs[longest].due <= self._steps else None

    def _wait(self, rung: _DepthStats) -> None:
        """Until what a draft of so many forwards costs, beside the best, is a small share of the time."""
        rung.due = self._steps + rung.regret(max(self._rungs[self._best].gain, 1.0)) / _TUITION


@dataclass
class _DepthStats:
    """Tokens promised and time taken, in plain steps, by drafts of one number of forwards; fading."""

    tokens: float = 0.0
    spent: float = 0.0
    weight: float = 0.0
    samples: int = 0
    due: float = 0.0
    """The step in which it is to be tried again, though another is better."""

    @property
    def gain(self) -> float:
        """Times plain decoding; 0.0 where it is not known."""
        return self.tokens / self.spent if self.samples else 0.0

    @property
    def loss(self) -> float:
        """Plain steps that a draft is likely to lose; never so many that it could not be tried again."""
        return min(self.regret(1.0), _CREDIT - _RESERVE)

    def regret(self, rate: float) -> float:
        """Tokens that a draft falls short of `rate`, in the mean."""
        return max(self.spent * rate - self.tokens, 0.0) / self.weight if self.samples else 0.0

    def learn(self, tokens: float, spent: float) -> None:
        """One draft. The second takes the first one's place."""
        fade = 0.95 if self.samples > 1 else 0.0
        self.samples += 1
        self.tokens = fade * self.tokens + tokens
        self.spent = fade * self.spent + spent
        self.weight = fade * self.weight + 1


@dataclass
class _RegretBudget:
    """What drafting has really won or lost against plain decoding, in plain steps, fading."""

    balance: float = 0.0
    elapsed: float = 0.0

    def bears(self, loss: float) -> bool:
        """Whether so much more may be lost."""
        return self.balance - loss >= -_CREDIT - _TUITION * self.elapsed

    def pass_time(self, steps: float) -> None:
        """A step has passed, which took so many plain ones."""
        self.elapsed = _MEMORY * self.elapsed + steps
        self.balance *= _MEMORY

    def settle(self, won: float) -> None:
        """A draft's tokens, less what it took."""
        self.balance += won


def _context(length: int) -> int:
    """Lengths within about 19% of each other share measurements."""
    return round(2 * log2(max(length, 1)))
