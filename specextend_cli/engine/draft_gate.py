"""The gate: how far to draft, how large a tree to verify, and whether to draft at all, by this run's own timings.

Verifying n nodes costs c(n) seconds; the tree's best n nodes promise 1 + s(n) tokens. Tokens per second are highest
where every step maximizes tokens - rate * seconds (Dinkelbach 1967), so a tree is cut where a node promises less than
its verification costs at the present rate. The best number of draft forwards is learnt: each has a rate of its own.
Promises are scaled by how many earlier ones came true. What drafting gained or lost against plain decoding is summed in
a regret budget, which keeps losses below a small share of the time.
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
_MARGIN = 0.04  # plain steps that a tree must gain by its promise, because timings and promises are noisy
_FIRST = 2  # plain steps before the first draft at every new context length
_TRIALS = 3  # drafts with a number of forwards before its rate counts as known
_WORST = 8  # plain steps; no single step counts for more
_HIGHEST_FLOOR = 0.25  # of a node's score, in case costs are mistaken
_CREDIT = 2.0  # plain steps that may be lost before any were gained
_RESERVE = 0.75  # part of the credit that trials of other depths may not use
_TUITION = 0.008  # share of the time that may be lost besides
_MEMORY = 0.998  # decay of gains and losses per step
_REFRESH = 96  # steps between two measurements of a plain step
_CHOOSING = 0.01  # share of the time that choosing working sets may take


class _Cost(NamedTuple):
    """Mean nodes and seconds of verifications of about one size, and how many were measured."""

    nodes: float
    seconds: float
    samples: int


@dataclass
class CostModel:
    """Seconds of a verification by its node count, at about the present context length. It outlives a sequence.

    The first measurements include warm-up, so the fastest of them counts; later ones enter a fading mean, each with at
    most three times the known cost.
    """

    _costs: dict[int, dict[int, _Cost]] = field(default_factory=dict)

    def learn(self, nodes: int, length: int, seconds: float) -> None:
        """A verification of `nodes` nodes over `length` committed tokens took `seconds`."""
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
        """Seconds of a plain step; 0.0 until known at about this length."""
        return self._costs[_context(length)][1].seconds if self.known(length) else 0.0

    def seconds(self, nodes: int, length: int) -> float:
        """Seconds of a verification: linear between measured sizes, beyond them by a node's usual share."""
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
        """The measurements; a size measured once, perhaps with warm-up, counts with its usual cost at most."""
        plain = self.plain(length)
        for cost in self._costs.get(_context(length), {}).values():
            usual = plain * (1 + _SLOPE * (cost.nodes - 1)) if plain else cost.seconds
            yield cost if cost.samples >= _FIRST else cost._replace(seconds=min(cost.seconds, usual))

    def share(self, length: int) -> float:
        """A node's cost as a share of a plain step's: as measured at the nearest length with trees, or as assumed."""
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
class _DepthStats:
    """Tokens promised and time spent, in plain steps, by drafts with one number of forwards; fading sums."""

    tokens: float = 0.0
    spent: float = 0.0
    weight: float = 0.0
    samples: int = 0
    due: float = 0.0
    """The step at which it is tried again although another is better."""

    @property
    def gain(self) -> float:
        """Speed relative to plain decoding; 0.0 where unknown."""
        return self.tokens / self.spent if self.samples else 0.0

    @property
    def loss(self) -> float:
        """Plain steps that a draft is likely to lose, bounded so that it can always be tried again."""
        return min(self.regret(1.0), _CREDIT - _RESERVE)

    def regret(self, rate: float) -> float:
        """Mean number of tokens by which a draft falls short of `rate`."""
        return max(self.spent * rate - self.tokens, 0.0) / self.weight if self.samples else 0.0

    def learn(self, tokens: float, spent: float) -> None:
        """Add one draft. The second one replaces the first, which included warm-up."""
        fade = 0.95 if self.samples > 1 else 0.0
        self.samples += 1
        self.tokens = fade * self.tokens + tokens
        self.spent = fade * self.spent + spent
        self.weight = fade * self.weight + 1


@dataclass
class _RegretBudget:
    """What drafting gained or lost against plain decoding, in plain steps, fading."""

    balance: float = 0.0
    elapsed: float = 0.0

    def affords(self, loss: float) -> bool:
        """Whether so much more may be lost."""
        return self.balance - loss >= -_CREDIT - _TUITION * self.elapsed

    def pass_time(self, steps: float) -> None:
        """A step took as long as so many plain ones."""
        self.elapsed = _MEMORY * self.elapsed + steps
        self.balance *= _MEMORY


@dataclass
class DraftGate:
    """Chooses each step's tree. Without `enabled`, every step drafts the full shape, to measure what the gate gains.

    It outlives a sequence, so that a drafter that did not pay on one chunk of a document is not tried at length on the
    next.
    """

    shape: TreeShape = field(default_factory=TreeShape)
    enabled: bool = True
    costs: CostModel = field(default_factory=CostModel)
    _steps: int = field(default=0, init=False)
    _depths: dict[int, _DepthStats] = field(init=False)  # by number of forwards, ascending
    _regret: _RegretBudget = field(default_factory=_RegretBudget, init=False)
    _promised: float = field(default=1.0, init=False)
    _kept: float = field(default=1.0, init=False)
    _drafted: _DepthStats | None = field(default=None, init=False)  # by the last step
    _pause: float = field(default=0.0, init=False)  # plain steps before the next choice of a working set

    def __post_init__(self) -> None:
        most = min(self.shape.depth, self.shape.forwards)
        powers = (2**n for n in range(most.bit_length()))
        self._depths = {forwards: _DepthStats() for forwards in sorted({0, *powers, most})}

    def next_shape(self, length: int) -> TreeShape:
        """What to ask of the drafter: one node is a plain step, no forwards a draft without a model."""
        if not self.enabled:
            return self.shape
        self._steps += 1
        plain = replace(self.shape, nodes=1)
        if not self.costs.known(length) or self._steps % _REFRESH == 0:
            return plain
        best, trial = self._best, self._trial()
        if trial is not None and self._regret.affords(self._depths[trial].loss + _RESERVE):
            forwards = trial
        elif self._depths[best].gain >= 1 and self._regret.affords(self._depths[best].loss):
            forwards = best
        else:
            return plain
        # Half of what a node costs: trust may rise, and costs are noisy.
        return replace(self.shape, forwards=forwards, floor=min(0.5 * self.costs.share(length), _HIGHEST_FLOOR))

    def cut(self, tree: DraftTree, length: int) -> DraftTree:
        """The tree's best nodes, as many as pay."""
        tree = tree.best(self.shape.nodes)
        if not self.enabled or len(tree) == 1:
            return tree
        scores = sorted(tree.scores.tolist(), reverse=True)
        rate = max(self._depths[self._best].gain, 1.0) / max(self.costs.plain(length), 1e-9)
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
        """What the step that was granted `shape` cost; `accepted` is the number of tokens it emitted."""
        self.costs.learn(len(tree), length, verify_seconds)
        if not self.enabled:
            return
        promised = float(tree.scores.sum()) - 1 if len(tree) > 1 else 0.0
        expected = 1 + self._trust * promised
        # Both sums drift back towards trust, so that a drafter that failed on one passage is tried on the next.
        self._promised = 0.95 * self._promised + 0.05 + promised
        self._kept = 0.95 * self._kept + 0.05 + (accepted - 1 if len(tree) > 1 else 0)
        plain = self.costs.plain(length)
        if not plain:
            return
        # Slow moments are not the drafter's fault: verification counts with its usual cost, a draft up to a limit.
        spent = min((draft_seconds + self.costs.seconds(len(tree), length)) / plain, _WORST)
        self._regret.pass_time(spent)
        self._pause -= spent
        self._drafted = None
        if shape.nodes == 1:
            return
        self._drafted = depth = self._depths[shape.forwards]
        depth.learn(expected, spent)
        gained = accepted - spent
        self._regret.balance += gained if depth.samples > 1 else max(gained, -1.0)  # the first includes warm-up
        self._postpone(depth)

    def affords_choice(self) -> bool:
        """Whether choosing a working set after the next step keeps choices below their share of the time."""
        return not self.enabled or self._pause <= 1

    def charge(self, seconds: float, length: int) -> None:
        """Add the cost of choosing a working set to the last draft's."""
        plain = self.costs.plain(length)
        if self.enabled and plain and self._drafted is not None:
            spent = min(seconds / plain, _WORST)
            self._pause = min(spent, 1.0) / _CHOOSING  # one slow moment does not postpone choices for hundreds of steps
            self._drafted.spent += spent
            self._regret.balance -= spent
            self._postpone(self._drafted)

    @property
    def _trust(self) -> float:
        """Tokens accepted per token promised."""
        return min(self._kept / self._promised, 1.25)

    @property
    def _best(self) -> int:
        """The number of forwards with the best rate."""
        return max(self._depths, key=lambda forwards: self._depths[forwards].gain)

    def _trial(self) -> int | None:
        """A number of forwards next to the best to be tried now, or the best itself where it does not pay."""
        best, ladder = self._best, list(self._depths)
        at = ladder.index(best)
        near = ladder[max(at - 1, 0) : at + 2]
        for forwards in near:
            if self._depths[forwards].samples < _TRIALS:
                return forwards
        if self._depths[best].gain >= 1:
            near.remove(best)
        longest = min(near, key=lambda forwards: self._depths[forwards].due, default=best)
        return longest if self._depths[longest].due <= self._steps else None

    def _postpone(self, depth: _DepthStats) -> None:
        """Until another such draft costs, compared with the best, a small share of the time."""
        depth.due = self._steps + depth.regret(max(self._depths[self._best].gain, 1.0)) / _TUITION


def _context(length: int) -> int:
    """Lengths within about 19% of each other share measurements."""
    return round(2 * log2(max(length, 1)))
