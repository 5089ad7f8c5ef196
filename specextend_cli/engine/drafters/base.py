"""What the decoding loop asks of a drafter. A wrong draft costs time only: the target decides every token."""

from __future__ import annotations

from abc import abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from heapq import heappop, heappush
from typing import TypeAlias, TypeVar

import torch
from torch import Tensor

from specextend_cli.engine.config import Retrieval, TreeShape
from specextend_cli.engine.tree import DraftTree, root

Kind: TypeAlias = tuple[int, int]
"""Of a promise; each drafter has its own."""

State = TypeVar("State")

_FADE = 0.99  # decay of evidence
_PRIOR = 4.0  # promised tokens that the prior counts for


class Drafter:
    """Proposes draft trees for one sequence at a time.

    The defaults are those of a drafter without attention of its own, which proposes nothing.
    """

    name: str
    reads_prompt: bool = True
    """Whether it wants `feature_layers` of a whole prompt, else of its last chunk."""
    _last = 0  # token that was observed

    @property
    def feature_layers(self) -> tuple[int, ...]:
        """The target's hidden states that it wants to observe, () for none."""
        return ()

    @property
    def retrieves(self) -> bool:
        """Whether it has attention that a working set could restrict; it may change when a drafter fails."""
        return False

    @property
    def is_restricted(self) -> bool:
        """Whether it has read more than its attention sees, or more than a working set holds."""
        return False

    @property
    def failure(self) -> str | None:
        """Why it, or one of its sources, has stopped drafting for good, in words; None while it has not."""
        return None

    def begin(self, capacity: int) -> None:
        """Forget the last sequence; the next one may hold `capacity` tokens."""

    def suspend(self) -> None:
        """Let draft models read and propose nothing more until the next sequence begins: the gate found no gain."""

    def observe(self, tokens: Sequence[int], features: Tensor | None, ids: Tensor | None = None) -> None:
        """Committed tokens in order, and the target's states that became known [m, features].

        Both streams run from position 0. After prefill, states are one behind: those of the last committed token are
        known only when it has been verified. `ids` are the tokens on the device, if they are there already.
        """
        self._last = tokens[-1]

    def propose(self, shape: TreeShape) -> DraftTree:
        """A tree whose root is the last observed token, best in the host's memory, where trees are merged and cut.

        The drafter's own cache is as before when this returns.
        """
        return root(self._last)

    def retrieve(self, scores: Tensor) -> None:
        """Choose the working set by the target's attention over the committed positions, [length] float32."""

    def visible(self) -> Tensor:
        """Ascending committed positions that the next draft's attention sees; asked only of one that `retrieves`."""
        return torch.arange(0)


class NoDrafter(Drafter):
    """Plain decoding through the same loop: every tree is its root."""

    name = "none"


def best_first(
    token: int, state: State, following: Callable[[int, State], Iterable[tuple[int, float, State]]], shape: TreeShape
) -> DraftTree:
    """A tree around `token` without a model, grown at its likeliest nodes.

    `following(node, state)` has tokens after a node, each with its probability and its own state.
    """
    tokens, parents, scores = [token], [0], [1.0]
    open_nodes = [(-1.0, 0, 0, state)]  # score, for the largest first; node, depth, state
    while open_nodes and len(tokens) < 2 * shape.nodes:
        score, node, depth, state = heappop(open_nodes)
        if depth == shape.depth:
            continue
        for child, share, onward in following(node, state):
            if share and -score * share >= shape.floor:
                heappush(open_nodes, (score * share, len(tokens), depth + 1, onward))
                tokens.append(child)
                parents.append(node)
                scores.append(-score * share)
    return DraftTree(tokens, parents, scores, [0] * len(tokens), forwards=0)


class SuspendableDrafter(Drafter):
    """One with a model, which is suspended for a sequence, and for good once its scores are no numbers.

    `reads` are the hidden states that it observes while it is not suspended, `config` says what its attention sees.
    """

    failure: str | None = None
    _is_suspended = False

    def __init__(self, reads: tuple[int, ...], config: Retrieval) -> None:
        self.reads, self.config = reads, config

    @property
    def feature_layers(self) -> tuple[int, ...]:
        """See `Drafter`."""
        return () if self._is_suspended else self.reads

    @property
    def retrieves(self) -> bool:
        """See `Drafter`."""
        return self.config.policy != "full" and not self._is_idle

    @property
    def _is_idle(self) -> bool:
        return self._is_suspended or self.failure is not None

    def begin(self, capacity: int) -> None:
        """See `Drafter`."""
        self._is_suspended = False

    def suspend(self) -> None:
        """See `Drafter`."""
        self._is_suspended = True

    @abstractmethod
    def _grown(self, shape: TreeShape) -> DraftTree:
        """A tree of more than its root, by a forward at least."""

    def propose(self, shape: TreeShape) -> DraftTree:
        """See `Drafter`."""
        if self._is_idle or min(shape.nodes - 1, shape.depth, shape.forwards) == 0:
            return root(self._last)
        tree = self._grown(shape)
        if tree.is_finite:
            return tree
        self.failure = f"the {self.name} draft computes values that are not numbers"
        return root(self._last)


class Calibration:
    """Tokens that came true per token promised, learnt during decoding, so that scores of different sources compare."""

    def __init__(self) -> None:
        self._promised: dict[Kind, float] = defaultdict(float)
        self._true: dict[Kind, float] = defaultdict(float)

    def rate(self, kind: Kind, expected: float = 1.0) -> float:
        """True tokens per promised token; `expected` without evidence."""
        return (self._true[kind] + _PRIOR * expected) / (self._promised[kind] + _PRIOR)

    def learn(self, kind: Kind, came_true: bool, promise: float = 1.0) -> None:
        """Add one token that was promised with this probability."""
        self._promised[kind] = _FADE * self._promised[kind] + promise
        self._true[kind] = _FADE * self._true[kind] + came_true
