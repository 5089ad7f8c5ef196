"""What the decoding loop asks of a drafter. A drafter can be wrong, never harmful: only the target decides tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from torch import Tensor

from specextend_cli.engine.config import TreeShape
from specextend_cli.engine.tree import DraftTree


class Drafter(Protocol):
    """Guesses trees for one sequence at a time.

    `feature_layers` are the target's hidden states it wants to observe, () for none; `retrieves` says whether it has
    attention that a working set could restrict.
    """

    name: str
    feature_layers: tuple[int, ...]

    @property
    def retrieves(self) -> bool:
        """See above; it may change when a drafter fails."""

    @property
    def failure(self) -> str | None:
        """Why it, or one of its sources, has stopped drafting for good, in words; None while it has not."""

    def begin(self, capacity: int) -> None:
        """Forget the last sequence; the next one may hold `capacity` tokens."""

    def observe(self, tokens: Sequence[int], features: Tensor | None) -> None:
        """Tokens that were committed, in order, and the target's states that became known [m, features].

        Both streams run from position 0. After prefill, states are one behind: those of the last committed token are
        known only when it has been verified.
        """

    def propose(self, shape: TreeShape) -> DraftTree:
        """A tree whose root is the last observed token. The drafter's own cache is as before when this returns."""

    def retrieve(self, scores: Tensor) -> None:
        """Choose the working set by the target's attention over the committed positions, [length] float32."""

    def visible(self) -> Tensor:
        """Ascending committed positions that the next draft's attention sees. Asked only of one that `retrieves`."""
