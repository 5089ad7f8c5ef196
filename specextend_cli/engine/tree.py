"""A draft tree as flat tensors. Plain decoding is the tree with one node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor


class Nodes(NamedTuple):
    """What a forward reads of a tree, on its device: tokens and depths [n] (int64), ancestor-or-self [n, n] (bool)."""

    tokens: Tensor
    depths: Tensor
    mask: Tensor


@dataclass(frozen=True)
class DraftTree:
    """Node 0, the root, is the last committed token, whose keys the target has not computed yet.

    Trees are made, merged, cut and accepted in the host's memory; `on` gives a forward what it needs of one.

    tokens [n] and parents [n] (int64), parents before children, the root its own parent. scores [n] (float32) estimate
    the probability that the whole path to a node is accepted (root 1) and never exceed the parent's. Siblings are
    distinct; a repeated one wastes a node and changes no output.
    """

    tokens: Tensor
    parents: Tensor
    scores: Tensor
    _uploaded: dict[torch.device, Nodes] = field(default_factory=dict, init=False, compare=False, repr=False)

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
        return torch.zeros_like(self.parents) if len(self) == 1 else self.mask.sum(-1) - 1

    def on(self, device: torch.device) -> Nodes:
        """The nodes on `device`, uploaded in one piece at the first call."""
        if device == self.tokens.device:
            return Nodes(self.tokens, self.depths, self.mask)
        if device not in self._uploaded:
            packed = torch.cat((self.tokens[None], self.depths[None], self.mask)).to(device, non_blocking=True)
            self._uploaded[device] = Nodes(packed[0], packed[1], packed[2:].bool())
        return self._uploaded[device]

    def on_host(self) -> DraftTree:
        """The same tree in the host's memory, read in one piece."""
        if self.tokens.device.type == "cpu":
            return self
        bits = self.scores.float().view(torch.int32).long()
        tokens, parents, scores = torch.stack((self.tokens.long(), self.parents.long(), bits)).cpu()
        return DraftTree(tokens, parents, scores.int().view(torch.float32))

    def repaired(self, token: int, vocabulary: int) -> DraftTree:
        """The same tree, in the host's memory, if it is a valid one around `token`, else a valid one near it.

        Tokens are clamped to [0, vocabulary), parents moved before their children, scores clamped to [0, 1] and to the
        parent's; a score that is not a number becomes 0. Tensors of different shapes or devices give the root alone.
        Verifying any such tree is lossless, so a faulty drafter cannot change the output.
        """
        n, device = self.tokens.numel(), self.tokens.device
        if n == 0 or any(
            part.shape != (n,) or part.device != device for part in (self.tokens, self.parents, self.scores)
        ):
            return root(token)
        here = self.on_host()
        order = torch.arange(n)
        tokens = here.tokens.long().clamp(0, vocabulary - 1)
        tokens[0] = token
        parents = torch.minimum(here.parents.long().clamp(min=0), (order - 1).clamp_(min=0))
        scores = torch.nan_to_num(here.scores.float(), nan=0.0).clamp_(0.0, 1.0)
        scores[0] = 1.0
        # The smallest score along each path, by pointer doubling.
        ancestors = parents
        for _ in range((n - 1).bit_length()):
            scores = torch.minimum(scores, scores[ancestors])
            ancestors = ancestors[ancestors]
        return DraftTree(tokens, parents, scores)

    @property
    def is_finite(self) -> bool:
        """Whether every score is a number."""
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
