"""What the decoding loop asks of a drafter. A wrong draft costs time only: the target decides every token."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

from specextend_cli.engine.config import TreeShape
from specextend_cli.engine.tree import DraftTree, root


class Drafter(Protocol):
    """Proposes draft trees for one sequence at a time.

    `feature_layers` are the target's hidden states it wants to observe, () for none; with `reads_prompt` those of a
    whole prompt, else of its last chunk. The defaults are those of a drafter without attention of its own.
    """

    name: str
    feature_layers: tuple[int, ...] = ()
    reads_prompt: bool = True

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
        return

    def suspend(self) -> None:
        """Let draft models read and propose nothing more until the next sequence begins: the gate found no gain."""
        return

    def observe(self, tokens: Sequence[int], features: Tensor | None, ids: Tensor | None = None) -> None:
        """Committed tokens in order, and the target's states that became known [m, features].

        Both streams run from position 0. After prefill, states are one behind: those of the last committed token are
        known only when it has been verified. `ids` are the tokens on the device, if they are there already.
        """

    def propose(self, shape: TreeShape) -> DraftTree:
        """A tree whose root is the last observed token, best in the host's memory, where trees are merged and cut.

        The drafter's own cache is as before when this returns.
        """

    def retrieve(self, scores: Tensor) -> None:
        """Choose the working set by the target's attention over the committed positions, [length] float32."""
        return

    def visible(self) -> Tensor:
        """Ascending committed positions that the next draft's attention sees; asked only of one that `retrieves`."""
        return torch.arange(0)


class NoDrafter(Drafter):
    """Plain decoding through the same loop: every tree is its root."""

    name = "none"

    def __init__(self) -> None:
        self._last = 0

    def observe(self, tokens: Sequence[int], features: Tensor | None, ids: Tensor | None = None) -> None:
        """See `Drafter`."""
        self._last = tokens[-1]

    def propose(self, shape: TreeShape) -> DraftTree:
        """See `Drafter`."""
        return root(self._last)
