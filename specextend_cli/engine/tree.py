"""A tree of guesses about what comes next, as flat tensors; plain decoding is the tree with one node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor


@dataclass(frozen=True)
class DraftTree:
    """Node 0, the root, is the last committed token, whose keys the target has not computed yet.

    tokens [n] and parents [n] (int64), parents before children, the root its own parent; scores [n] (float32): the
    drafter's estimate that the whole path to a node is accepted (root 1), never larger than its parent's. Siblings
    are distinct, which is what makes `verify.accept` lossless.
    """

    tokens: Tensor
    parents: Tensor
    scores: Tensor

    def __len__(self) -> int:
        return self.tokens.shape[0]

    @cached_property
    def mask(self) -> Tensor:
        """Ancestor-or-self, [n, n] bool: row i holds the nodes that node i may attend to."""
        n = len(self)
        if n == 1:  # plain decoding, of which this is every step
            return torch.ones(1, 1, dtype=torch.bool, device=self.tokens.device)
        reach = torch.eye(n, device=self.tokens.device)
        reach[torch.arange(n, device=self.tokens.device), self.parents] = 1
        # Squaring doubles the reach, so a path of n nodes closes in log2(n) products and nothing is read by the host.
        for _ in range((n - 1).bit_length()):
            reach = (reach @ reach).clamp_(max=1)
        return reach > 0

    @cached_property
    def depths(self) -> Tensor:
        """Edges from the root, [n] int64."""
        return self.mask.sum(-1) - 1

    def best(self, n: int) -> DraftTree:
        """The n nodes of highest score. Scores never rise along a path, so what is left is a tree."""
        if n >= len(self):
            return self
        # A stable sort keeps a parent ahead of a child with an equal score.
        chosen = torch.sort(self.scores, descending=True, stable=True).indices[:n].sort().values
        renumber = torch.zeros(len(self), dtype=torch.long, device=self.tokens.device)
        renumber[chosen] = torch.arange(n, device=self.tokens.device)
        return DraftTree(self.tokens[chosen], renumber[self.parents[chosen]], self.scores[chosen])


def root(token: int, device: torch.device | str = "cpu") -> DraftTree:
    """The tree of plain decoding."""
    return from_lists([token], [0], [1.0], device)


def from_lists(
    tokens: Sequence[int], parents: Sequence[int], scores: Sequence[float], device: torch.device | str = "cpu"
) -> DraftTree:
    """A tree built on the host, moved to the device in one piece each."""
    return DraftTree(
        torch.tensor(tokens, dtype=torch.long).to(device),
        torch.tensor(parents, dtype=torch.long).to(device),
        torch.tensor(scores, dtype=torch.float32).to(device),
    )
