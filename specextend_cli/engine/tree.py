"""A draft tree as flat lists in the host's memory. Plain decoding is the tree with one node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import isfinite
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor


class Nodes(NamedTuple):
    """What a forward reads of a tree, on its device: tokens and depths [n] (int64), ancestor-or-self [n, n] (bool)."""

    tokens: Tensor
    depths: Tensor
    mask: Tensor


_ALONE = torch.ones(1, 1, dtype=torch.bool)  # the mask of a root


@dataclass(frozen=True)
class DraftTree:
    """Node 0, the root, is the last committed token, whose keys the target has not computed yet.

    Of n nodes, `tokens` and `parents`, parents before children, the root its own parent. `scores` estimate the
    probability that the whole path to a node is accepted (root 1) and never exceed the parent's. Siblings are distinct;
    a repeated one wastes a node and changes no output.

    `known_after` is the number of forwards of a draft model that a node took, of `forwards` in all: 0 for what a
    drafter without a model proposes. By default a node takes as many as its depth.
    """

    tokens: Sequence[int]
    parents: Sequence[int]
    scores: Sequence[float]
    known_after: Sequence[int] | None = None
    forwards: int | None = None
    _uploaded: dict[torch.device, Nodes] = field(default_factory=dict, init=False, compare=False, repr=False)

    def __len__(self) -> int:
        return len(self.tokens)

    @cached_property
    def depths(self) -> Sequence[int]:
        """Edges from the root."""
        depths = [0] * len(self)
        for node, parent in enumerate(self.parents[1:], 1):
            depths[node] = depths[parent] + 1
        return depths

    @property
    def is_chain(self) -> bool:
        """Whether no node has two children."""
        return all(parent == max(node - 1, 0) for node, parent in enumerate(self.parents))

    def paths(self) -> list[list[int]]:
        """The nodes from the root to each leaf."""
        found = {0: [0]}
        for node, parent in enumerate(self.parents[1:], 1):
            found[node] = [*found[parent], node]
        return [found[leaf] for leaf in sorted(found.keys() - set(self.parents[1:]))]

    def subtree(self, nodes: Sequence[int]) -> DraftTree:
        """The tree of these nodes alone, ascending from the root; one without its parent hangs from the root."""
        number = {node: new for new, node in enumerate(nodes)}
        return DraftTree(
            [self.tokens[node] for node in nodes],
            [number.get(self.parents[node], 0) for node in nodes],
            [self.scores[node] for node in nodes],
            None if self.known_after is None else [self.known_after[node] for node in nodes],
            self.forwards,
        )

    def chain(self) -> DraftTree:
        """The path with the highest expected accepted length."""
        if self.is_chain:
            return self
        return self.subtree(max(self.paths(), key=lambda path: sum(self.scores[node] for node in path)))

    @cached_property
    def ancestors(self) -> Sequence[int]:
        """Ancestor-or-self as bits: bit j of number i is set if node i attends to node j."""
        reach = [1] * len(self)
        for node, parent in enumerate(self.parents[1:], 1):
            reach[node] = reach[parent] | 1 << node
        return reach

    @cached_property
    def mask(self) -> Tensor:
        """Ancestor-or-self, [n, n] bool: row i marks the nodes that node i attends to."""
        if len(self) == 1:
            return _ALONE
        reach = np.eye(len(self), dtype=np.bool_)
        for node, parent in enumerate(self.parents):
            reach[node] |= reach[parent]
        return torch.from_numpy(reach)

    @cached_property
    def cost(self) -> tuple[Sequence[int], int]:
        """`known_after` and `forwards`, by default or as given."""
        known_after = self.depths if self.known_after is None else self.known_after
        return known_after, max(known_after) if self.forwards is None else self.forwards

    def on(self, device: torch.device | str) -> Nodes:
        """The nodes on `device`, uploaded in one piece at the first call."""
        device = torch.device(device)
        if device not in self._uploaded:
            tokens, depths = torch.tensor((self.tokens, self.depths), device="cpu")
            nodes = Nodes(tokens, depths, self.mask)
            if device.type != "cpu":
                packed = torch.cat((nodes.tokens[None], nodes.depths[None], nodes.mask)).to(device, non_blocking=True)
                nodes = Nodes(packed[0], packed[1], packed[2:].bool())
            self._uploaded[device] = nodes
        return self._uploaded[device]

    def lies_at(self, nodes: Nodes) -> None:
        """The nodes are on a device already, in memory of their own: `on` uploads nothing."""
        self._uploaded[nodes.tokens.device] = nodes

    @property
    def is_finite(self) -> bool:
        """Whether every score is a number."""
        return all(map(isfinite, self.scores))

    def best(self, n: int) -> DraftTree:
        """The n nodes of highest score; all nodes if a score is no number.

        Scores never rise along a path, so the best ones form a tree.
        """
        if n >= len(self) or not self.is_finite:
            return self
        # The sort is stable, so a parent stays ahead of a child with an equal score.
        others = sorted(range(1, len(self)), key=self.scores.__getitem__, reverse=True)
        return self.subtree([0, *sorted(others[: n - 1])])


def root(token: int) -> DraftTree:
    """The tree of plain decoding."""
    return DraftTree([token], [0], [1.0])


def read(token: int, rows: Tensor, most: int, *, forwards: int) -> DraftTree:
    """The `most` best nodes of a tree around `token` that was grown on a device, read in one piece.

    `rows` [3, n] (int64) are tokens, parents and the bits of float32 scores; the first stands for the root. If a score
    is no number, all nodes.
    """
    tokens, parents, bits = rows.cpu().numpy()
    scores = bits.astype(np.int32).view(np.float32)
    tokens[0], scores[0] = token, 1.0
    tree = DraftTree(tokens.tolist(), parents.tolist(), scores.tolist(), forwards=forwards)
    if len(tree) <= most or not np.isfinite(scores).all():
        return tree
    # As `DraftTree.best`, in less time.
    others = np.argsort(-scores[1:], kind="stable")[: most - 1] + 1
    return tree.subtree([0, *np.sort(others).tolist()])


def accept(tree: DraftTree, choice: Tensor) -> tuple[list[int], list[int]]:
    """The deepest path of nodes, root first, that agrees with the target's `choice` [n], one token per node.

    With it, the tokens to emit: those of the nodes behind the root, and the bonus token.
    A node is right when its token is the target's choice at its parent. A path of right nodes is what plain decoding
    emits, whether the choice is argmax or a draw from the target's distribution. At most one child of a node is right,
    because siblings are distinct. The host reads the choice and nothing else.
    """
    chosen: list[int] = choice.tolist()
    path = [0]
    for node in range(1, len(tree)):  # children come after their parents
        if tree.parents[node] == path[-1] and tree.tokens[node] == chosen[path[-1]]:
            path.append(node)
    return path, [chosen[node] for node in path]
