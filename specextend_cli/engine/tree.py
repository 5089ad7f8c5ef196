"""A draft tree as flat tensors. Plain decoding is the tree with one node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor


@dataclass(frozen=True)
class DraftTree:
    """Node 0, the root, is the last committed token, whose keys the target has not computed yet.

    tokens [n] and parents [n] (int64), parents before children, the root its own parent. scores [n] (float32) estimate
    the probability that the whole path to a node is accepted (root 1) and never exceed the parent's. Siblings are
    distinct; a repeated one wastes a node and changes no output.
    """

    tokens: Tensor
    parents: Tensor
    scores: Tensor

    def __len__(self) -> int:
        return self.tokens.shape[0]

    @cached_property
    def mask(self) -> Tensor:
        """Ancestor-or-self, [n, n] bool: row i marks the nodes that node i attends to."""
        n = len(self)
        if n == 1:  # every step of plain decoding
            return torch.ones(1, 1, dtype=torch.bool, device=self.tokens.device)
        reach = torch.eye(n, device=self.tokens.device)
        reach[torch.arange(n, device=self.tokens.device), self.parents] = 1
        # Squaring doubles the reach: log2(n) products close a path of n nodes, and the host reads nothing.
        for _ in range((n - 1).bit_length()):
            reach = (reach @ reach).clamp_(max=1)
        return reach > 0

    @cached_property
    def depths(self) -> Tensor:
        """Edges from the root, [n] int64."""
        return self.mask.sum(-1) - 1

    def repaired(self, token: int, vocabulary: int) -> DraftTree:
        """The same tree if it is a valid one around `token`, else a valid one near it.

        Tokens are clamped to [0, vocabulary), parents moved before their children, scores clamped to [0, 1] and to the
        parent's; a score that is not a number becomes 0. Tensors of different shapes or devices give the root alone.
        Verifying any such tree is lossless, so a faulty drafter cannot change the output. The host reads nothing.
        """
        n, device = self.tokens.numel(), self.tokens.device
        if n == 0 or any(
            part.shape != (n,) or part.device != device for part in (self.tokens, self.parents, self.scores)
        ):
            return root(token, device)
        order = torch.arange(n, device=device)
        tokens = self.tokens.long().clamp(0, vocabulary - 1)
        tokens[0] = token
        parents = torch.minimum(self.parents.long().clamp(min=0), (order - 1).clamp_(min=0))
        scores = torch.nan_to_num(self.scores.float(), nan=0.0).clamp_(0.0, 1.0)
        scores[0] = 1.0
        # The smallest score along each path, by pointer doubling.
        ancestors = parents
        for _ in range((n - 1).bit_length()):
            scores = torch.minimum(scores, scores[ancestors])
            ancestors = ancestors[ancestors]
        return DraftTree(tokens, parents, scores)

    @property
    def is_finite(self) -> bool:
        """Whether every score is a number; the host reads it."""
        return bool(self.scores.isfinite().all())

    def best(self, n: int) -> DraftTree:
        """The n nodes of highest score. Scores never rise along a path, so they form a tree."""
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
    """A tree from host lists, with one transfer per tensor."""
    return DraftTree(
        torch.tensor(tokens, dtype=torch.long).to(device),
        torch.tensor(parents, dtype=torch.long).to(device),
        torch.tensor(scores, dtype=torch.float32).to(device),
    )
