"""A draft tree as flat tensors. Plain decoding is the tree with one node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import inf, isnan
from typing import NamedTuple

import numpy as np
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
        reach = np.eye(len(self), dtype=np.bool_)
        for node, parent in enumerate(self.parents.tolist()):
            reach[node] |= reach[parent]
        return torch.from_numpy(reach).to(self.tokens.device)

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
        tokens = [min(max(given, 0), vocabulary - 1) for given in here.tokens.tolist()]
        parents = [min(max(parent, 0), max(node - 1, 0)) for node, parent in enumerate(here.parents.tolist())]
        scores = here.scores.tolist()
        tokens[0], scores[0] = token, 1.0
        for node in range(1, n):
            score = 0.0 if isnan(scores[node]) else scores[node]
            scores[node] = max(min(score, scores[parents[node]]), 0.0)
        return from_lists(tokens, parents, scores)

    @property
    def is_finite(self) -> bool:
        """Whether every score is a number."""
        return bool(self.scores.isfinite().all())

    def best(self, n: int) -> DraftTree:
        """The n nodes of highest score. Scores never rise along a path, so they form a tree."""
        if n >= len(self):
            return self
        tokens, parents, scores = self.tokens.tolist(), self.parents.tolist(), self.scores.nan_to_num(inf).tolist()
        # The sort is stable, so a parent stays ahead of a child with an equal score.
        chosen = [0, *sorted(sorted(range(1, len(self)), key=scores.__getitem__, reverse=True)[: n - 1])]
        number = {node: place for place, node in enumerate(chosen)}
        return from_lists(
            [tokens[node] for node in chosen],
            [number.get(parents[node], 0) for node in chosen],  # without a parent where scores are no numbers
            [scores[node] for node in chosen],
        )


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
