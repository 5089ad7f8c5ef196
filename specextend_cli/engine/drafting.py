"""A drafter under its gate, as the decoding loop sees it: trees of the size that pays, and its working sets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from time import perf_counter

from specextend_cli.engine.config import Retrieval, TreeShape
from specextend_cli.engine.draft_gate import DraftGate
from specextend_cli.engine.drafters.base import Drafter
from specextend_cli.engine.events import DrafterFailed, Retrieved
from specextend_cli.engine.plain import TransformersTarget
from specextend_cli.engine.target import Target
from specextend_cli.engine.tree import DraftTree, root


class Drafting:
    """Per step: `draft`, then, when its tree is verified and the accepted path known, `learn` and `events`."""

    def __init__(
        self, target: Target | TransformersTarget, drafter: Drafter, gate: DraftGate, retrieval: Retrieval
    ) -> None:
        self._target, self._drafter, self._gate = target, drafter, gate
        self._every, self._steps = retrieval.every, 0  # drafted since a working set was chosen
        self._failed = False  # and the event was emitted
        self.is_choosing = False
        """Whether the working set is chosen again after this step, so that the verification records its queries."""

    def begin(self, capacity: int) -> None:
        """A sequence of at most `capacity` tokens begins."""
        self._drafter.begin(capacity)
        if self._gate.begin():
            self._drafter.suspend()

    def first_events(self) -> Iterator[Retrieved]:
        """After the prompt: the first choice of a working set."""
        self._failed = self._drafter.failure is not None
        if self._drafter.retrieves:
            yield self._retrieve(-1, first=True)

    def draft(self, last: int) -> DraftTree:
        """A tree whose root is the `last` accepted token, cut to the nodes that pay; the root alone where none does."""
        self._began, self._length = perf_counter(), self._target.length
        self._shape: TreeShape = self._gate.next_shape(self._length)
        self._tree = root(last)
        if self._shape.nodes > 1:
            proposed = self._drafter.propose(self._shape)
            if not self._target.follows_trees(min(len(proposed), self._shape.nodes)):
                proposed = proposed.chain()
            self._tree = self._gate.cut(proposed, self._length)
        self._drafted = perf_counter()
        uses_set = self._drafter.is_restricted and self._shape.nodes > 1 and self._shape.forwards > 0
        self._steps += uses_set
        self.is_choosing = uses_set and 0 < self._every <= self._steps and self._gate.affords_choice()
        self._steps = 0 if self.is_choosing else self._steps
        return self._tree

    def learn(self, path: Sequence[int]) -> tuple[float, float, float]:
        """Tell the gate what the step cost, which ends now: seconds of draft, verification, and a plain step."""
        draft, verify = self._drafted - self._began, perf_counter() - self._drafted
        self._does_not_pay = self._gate.learn(self._tree, self._shape, path, draft, verify, self._length)
        return draft, verify, self._gate.costs.plain(self._length)

    def events(self, path: Sequence[int], *, ended: bool) -> Iterator[DrafterFailed | Retrieved]:
        """After the step: a failure of the drafter; the choice of a working set, if it is due and text follows."""
        if self._drafter.failure and not self._failed:
            self._failed = True
            yield DrafterFailed(self._drafter.failure)
        if self.is_choosing and not ended:
            retrieved = self._retrieve(path[-1])
            self._gate.charge(retrieved.seconds, self._length)
            yield retrieved
        if self._does_not_pay:
            self._drafter.suspend()

    def _retrieve(self, node: int, *, first: bool = False) -> Retrieved:
        """Let the drafter choose its working set by the attention of the node that was accepted last."""
        assert isinstance(self._target, Target)  # no other is drafted for
        began = perf_counter()
        scores = self._target.attention_from(node)
        old = None if first else self._drafter.visible()
        self._drafter.retrieve(scores)
        new = self._drafter.visible()
        attention = scores[new if old is None else old].sum()
        return Retrieved(attention, new, len(scores), perf_counter() - began)
