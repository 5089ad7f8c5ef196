"""The gate: how far to draft, how large a tree to verify, and whether to draft at all, by this run's own timings.

A tree's best n nodes promise s(n) more tokens and cost c(n) - c(1) more seconds to verify. The tree is cut where
s(n) - rate * (c(n) - c(1)) is largest; the rate is that of the text around it, because a token that is drafted now is
one that does not have to be decoded a little later.

A tree also says what each of its forwards brought: the difference between the best cut of the nodes that so many
forwards proposed and of those that one forward less did. The mean of that, less what the forward costs, is a forward's
net gain, and a draft runs as many forwards as together gain most. Promises are scaled by how many earlier ones came
true. What drafting gained or lost against plain decoding is summed in a regret budget, which keeps losses below a small
share of the time. Models that gain nothing are suspended for the rest of the sequence and some further ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from specextend_cli.engine.config import TreeShape
from specextend_cli.engine.cost_model import SIZES, CostModel
from specextend_cli.engine.tree import DraftTree

_MARGIN = 0.04  # tokens that a tree must gain by its promise, because timings and promises are noisy
_TRIALS = 3  # drafts before the net gain of a forward counts as known
_SETTLED = 3  # measurements of a draft, of which the fastest counts
_SET_UP, _FORWARD = 0.2, 0.3  # plain steps: most that a draft, and each of its forwards, costs until measured so often
_WORST = 8  # plain steps; no single step counts for more
_HIGHEST_FLOOR = 0.25  # of a node's score, in case costs are mistaken
_CREDIT = 2.0  # plain steps that may be lost before any were gained
_RESERVE = 0.75  # part of the credit that trials may not use
_TUITION = 0.008  # share of the time that may be lost besides
_MEMORY = 0.998  # decay of gains and losses per step
_MOST_FAILED = 4  # drafts in a row that could ask models and gained nothing by it, before these are suspended
_LONGEST_SUSPENSION = 15  # sequences
_REFRESH = 96  # steps between two measurements of a plain step
_EARLY = 12  # step of one more: the first ones follow a prefill, and are slow
_RENEW = 8  # steps that floor and threshold stay: a step of few tokens has little time for choosing them
_CHOOSING = 0.01  # share of the time that choosing working sets may take
_NEAR = 0.97  # decay per step of the rate of decoding: about thirty steps count
_TRUST = 0.98  # decay per step of promises and of what came true
_PRIOR = 2.0  # promised tokens that the trust in promises counts for
_YIELD = 0.5  # tokens that a forward gains per token that the one before promised, until known


@dataclass
class _Mean:
    """A mean that fades: the last twenty samples count."""

    value: float = 0.0
    samples: int = 0

    def learn(self, sample: float) -> None:
        self.samples += 1
        self.value += max(1 / self.samples, 0.05) * (sample - self.value)


@dataclass
class _DraftCost:
    """Mean seconds of a draft by the number of its forwards.

    A draft after steps that did without also reads what these committed: a drafter that is asked rarely costs more.
    The first measurements may include compiling or memory that grew, so the fastest of them counts, with a usual cost
    at most, and no later sample with more than twice what is known.
    """

    _means: dict[int, _Mean] = field(default_factory=lambda: {0: _Mean()})

    def learn(self, forwards: int, seconds: float) -> None:
        mean = self._means.setdefault(forwards, _Mean())
        if 0 < mean.samples < _SETTLED:
            mean.value = min(mean.value, seconds)
        mean.learn(min(seconds, 2 * mean.value) if mean.samples else seconds)

    def settled(self, forwards: int, seconds: float, plain: float) -> float:
        """What a draft that took `seconds` says of its cost: a slow moment is not the drafter's fault."""
        return min(seconds, 2 * self.of(forwards, plain))

    def of(self, forwards: int, plain: float) -> float:
        """Linear between numbers that were measured; beyond them every forward costs the mean of those before.

        `plain`: seconds of a plain step.
        """
        usual, fewer = dict[int, float](), 0.0
        for number, mean in sorted(self._means.items()):
            bound = max((_SET_UP + _FORWARD * number) * plain, fewer)
            fewer = usual[number] = min(mean.value, bound) if 0 < mean.samples < _SETTLED else mean.value
        if forwards in usual:
            return usual[forwards]
        known = sorted(usual)
        if forwards > known[-1]:
            return usual[known[-1]] * forwards / max(known[-1], 1)
        low, high = next((low, high) for low, high in pairwise(known) if forwards < high)
        return usual[low] + (usual[high] - usual[low]) * (forwards - low) / (high - low)


@dataclass
class _Trust:
    """Tokens accepted per token promised; both drift towards the prior, which says that all promises come true."""

    promised: float = _PRIOR
    kept: float = _PRIOR

    def learn(self, promised: float, kept: float) -> None:
        self.promised = _TRUST * self.promised + (1 - _TRUST) * _PRIOR + promised
        self.kept = _TRUST * self.kept + (1 - _TRUST) * _PRIOR + kept

    @property
    def rate(self) -> float:
        return min(self.kept / self.promised, 1.25)


class DraftGate:
    """Chooses each step's tree. Without `enabled`, every step drafts the full shape, to measure what the gate gains.

    It outlives a sequence, so that a drafter that did not pay on one chunk of a document is not tried at length on the
    next.
    """

    def __init__(self, shape: TreeShape | None = None, *, enabled: bool = True, costs: CostModel | None = None) -> None:
        self.shape = shape or TreeShape()
        self.enabled = enabled
        self.costs = costs or CostModel()
        self._steps = 0
        # Tokens, by the number of forwards: of each over one less.
        self._net_gains = [_Mean() for _ in range(min(self.shape.depth, self.shape.forwards) + 1)]
        self._drafting = _DraftCost()
        self._choosing = _DraftCost()  # of working sets, as if by one forward
        self._balance = 0.0  # what drafting gained or lost against plain decoding, in plain steps, fading
        self._elapsed = 0.0  # plain steps, fading
        self._trust = _Trust(), _Trust()  # in copies, a model
        self._followed = 1.0  # tokens promised by forwards that another one followed
        self._following = _YIELD  # tokens that those gained
        self._tokens = self._spent = 1 / (1 - _NEAR)
        self._gains: list[float] = []  # of the last tree, by forwards
        self._choice: int | None = None  # the number of forwards that gain most
        self._granted: TreeShape | None = None
        self._due = 0.0  # step of the next trial
        self._failed = 0  # drafts that could ask models since these last paid
        self._is_suspended = False  # models, in this sequence
        self._suspensions_left = 0  # sequences that begin without models
        self._last_suspension = 0  # sequences
        self._pause = 0.0  # plain steps before the next choice of a working set

    def begin(self) -> bool:
        """A sequence begins; whether draft models are suspended in it, because they did not pay in earlier ones."""
        self._is_suspended = self._suspensions_left > 0
        self._suspensions_left = max(self._suspensions_left - 1, 0)
        return self._is_suspended

    def next_shape(self, length: int) -> TreeShape:
        """What to ask of the drafter: one node is a plain step, no forwards a draft without a model."""
        if not self.enabled:
            return self.shape
        self._steps += 1
        plain, best = self.costs.plain(length), self._choice
        trial = self._trial_after(best)
        if not plain or self._steps % _REFRESH == 0 or self._steps == _EARLY:
            forwards = None
        elif trial is not None and self._is_due(trial) and self._affords(self._loss(trial) + _RESERVE):
            forwards = trial
        else:
            forwards = best if self._affords(0.0) else None
        if forwards is None:
            return replace(self.shape, nodes=1)
        if self._granted and self._granted.forwards == forwards and self._steps % _RENEW:
            return self._granted
        # Half of what a node costs: trust may rise, and costs are noisy.
        floor = min(0.5 * self.costs.share(length), _HIGHEST_FLOOR)
        another = (self._drafting.of(2, plain) - self._drafting.of(1, plain)) / plain
        threshold = self._rate * max(another, 0.0) * self._followed / max(self._following, 1e-3)
        self._granted = replace(self.shape, forwards=forwards, floor=floor, threshold=threshold)
        return self._granted

    def cut(self, tree: DraftTree, length: int) -> DraftTree:
        """The tree's best nodes, as many as pay."""
        tree = tree.best(self.shape.nodes)
        plain = self.costs.plain(length)
        if not self.enabled:
            return tree
        known_after, ran = tree.cost
        ran = min(ran, len(self._net_gains) - 1)
        self._gains = [0.0] * (ran + 1)
        if len(tree) == 1 or not plain:
            return tree
        copied, modelled = (trust.rate for trust in self._trust)
        nodes = sorted(
            (
                (score * (modelled if forwards else copied), forwards)
                for score, forwards in zip(tree.scores[1:], known_after[1:], strict=True)
            ),
            reverse=True,
        )
        sizes = [*(size for size in SIZES[1:] if size <= len(nodes)), len(nodes) + 1]
        one, *several = self.costs.curve((1, *sizes), length)
        costs = [self._rate * (cost - one) / plain for cost in several]
        best = 1
        for most in range(ran + 1):
            scores = [score for score, forwards in nodes if forwards <= most or most == ran]
            best, self._gains[most] = _best_cut(scores, sizes, costs)
        for before in range(1, ran):
            self._followed += sum(score for score, forwards in nodes if forwards == before)
            self._following += self._gains[before + 1] - self._gains[before]
        return tree.best(best)

    def learn(
        self,
        tree: DraftTree,
        shape: TreeShape,
        path: Sequence[int],
        draft_seconds: float,
        verify_seconds: float,
        length: int,
    ) -> bool:
        """What the step that was granted `shape` cost; `path` are the accepted nodes, root first.

        Returns whether draft models are to be suspended. They cost even unused: the states that they read, and reading.
        """
        self.costs.learn(len(tree), length, verify_seconds)
        if not self.enabled:
            return False
        # All sums drift back towards what is usual, so that a drafter that failed on one passage is tried on the next.
        accepted, promised, kept = len(path), [0.0, 0.0], [0.0, 0.0]
        for node, (score, forwards) in enumerate(zip(tree.scores, tree.cost[0], strict=True)):
            if node:
                promised[forwards > 0] += score
                kept[forwards > 0] += node in path
        for trust, *sums in zip(self._trust, promised, kept, strict=True):
            trust.learn(*sums)
        self._followed = _TRUST * self._followed + (1 - _TRUST)
        self._following = _TRUST * self._following + (1 - _TRUST) * _YIELD
        plain = self.costs.plain(length)
        if not plain:
            return False
        # Slow moments are nobody's fault: both count with their usual cost, a draft with twice that at most.
        ran = len(self._gains) - 1
        if shape.nodes > 1:
            self._drafting.learn(ran, draft_seconds)
            draft_seconds = self._drafting.settled(ran, draft_seconds, plain)
        spent = min((draft_seconds + self.costs.seconds(len(tree), length)) / plain, _WORST)
        self._elapsed, self._balance = _MEMORY * self._elapsed + spent, _MEMORY * self._balance
        self._pause -= spent
        self._tokens, self._spent = _NEAR * self._tokens + accepted, _NEAR * self._spent + spent
        if shape.nodes == 1:
            return False
        self._balance += accepted - spent
        gained = cost = 0.0
        for forwards, net in enumerate(self._net_gains[: shape.forwards + 1]):
            if forwards > ran:  # it would have stopped there as well
                net.learn(0.0)
                continue
            before, gained, cost_before, cost = gained, self._gains[forwards], cost, self._drafting.of(forwards, plain)
            net.learn(gained - before - self._rate * (cost - cost_before) / plain)
        self._choice = self._best()
        trial = self._trial_after(self._choice)
        if trial is not None and shape.forwards >= trial:
            # Trials cost a small share of the time, compared with the best draft.
            self._due = self._steps + self._loss(trial) / _TUITION
        return shape.forwards > 0 and not self._is_suspended and self._suspends()

    def _suspends(self) -> bool:
        """After a draft that could ask models: whether so many in a row gained nothing by it."""
        if self._choice:
            self._failed = self._last_suspension = 0
            return False
        self._failed += 1
        if self._failed < _MOST_FAILED:
            return False
        self._failed -= 1  # after the suspension, one more decides
        self._is_suspended, self._last_suspension = True, min(2 * self._last_suspension + 1, _LONGEST_SUSPENSION)
        self._suspensions_left = self._last_suspension
        return True

    def affords_choice(self) -> bool:
        """Whether choosing a working set after the next step keeps choices below their share of the time."""
        return not self.enabled or self._pause <= 1

    def charge(self, seconds: float, length: int) -> None:
        """Add the cost of choosing a working set to the last draft's."""
        plain = self.costs.plain(length)
        if self.enabled and plain and len(self._net_gains) > 1:
            self._choosing.learn(1, seconds)
            spent = min(self._choosing.settled(1, seconds, plain) / plain, _WORST)
            self._pause = min(spent, 1.0) / _CHOOSING  # one slow moment does not postpone choices for hundreds of steps
            self._balance -= spent
            self._net_gains[1].value -= self._rate * spent * 0.05

    @property
    def _rate(self) -> float:
        """Tokens per plain step's time, at present."""
        return max(self._tokens / self._spent, 1.0)

    def _net(self, forwards: int | None) -> float:
        """Tokens by which a draft with so many forwards is better than a plain step."""
        return sum(net.value for net in self._net_gains[: forwards + 1]) if forwards is not None else 0.0

    def _best(self) -> int | None:
        """The number of forwards that gain most; None where none pays."""
        known = [forwards for forwards, net in enumerate(self._net_gains) if net.samples]
        best = max(known, key=self._net, default=None)
        return best if self._net(best) > 0 else None

    def _trial_after(self, best: int | None) -> int | None:
        """The next number of forwards to try; None where the best one is the largest."""
        if self._is_suspended:
            return 0 if best is None else None
        most = len(self._net_gains) - 1
        return min(2 * best if best else 1, most) if best != most else None

    def _is_due(self, trial: int) -> bool:
        is_known = all(net.samples >= _TRIALS for net in self._net_gains[: trial + 1])
        return not is_known or self._due <= self._steps

    def _affords(self, loss: float) -> bool:
        """Whether so many more plain steps may be lost."""
        return self._balance - loss >= -_CREDIT - _TUITION * self._elapsed

    def _loss(self, trial: int) -> float:
        """Tokens that a trial is likely to lose, bounded so that it can always be made again."""
        return min(max(self._net(self._choice) - self._net(trial), 0.0), _CREDIT - _RESERVE)


def _best_cut(scores: Sequence[float], sizes: Sequence[int], costs: Sequence[float]) -> tuple[int, float]:
    """The size [nodes] that gains most, and the gain [tokens]: descending scores less what the sizes cost."""
    best, most, worth, at = 1, 0.0, 0.0, 0
    for size, cost in zip(sizes, costs, strict=True):
        worth += sum(scores[at : size - 1])
        at = size - 1
        if worth - cost > max(most, _MARGIN):
            best, most = size, worth - cost
        if at >= len(scores):
            break
    return best, most
