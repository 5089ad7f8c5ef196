"""Sliding windows: which queries of a forward meet which keys, under which mask, so that any back end can attend.

A query sees the keys of the newest `window` positions, its own included. A node's position is its depth, so along a
path of a tree, as in a prompt, positions are counted by the keys that a query sees. Keys outside every window are cut
off, and what is left is given to the back end as a tree with a mask. A prompt's chunk is cut into blocks of queries: no
mask is larger than [block, window + block]. In CUDA graphs, where the host knows no lengths, Triton's kernel reads the
first key that each query sees (`triton_tree.first_keys`).
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

_BLOCK = 256
"""Queries; a larger block computes more scores outside their windows."""


class Block(NamedTuple):
    """These queries see, of these keys, what `mask` says, as `Backend` reads it."""

    queries: slice
    keys: slice
    mask: Tensor | None


def blocks(n: int, total: int, window: int, tree_mask: Tensor | None, device: torch.device) -> list[Block]:
    """The blocks of n queries over `total` keys; the last ones are the queries' own, or a tree's."""
    if total <= window:
        return [Block(slice(0, n), slice(0, total), tree_mask)]
    made: dict[tuple[int, int], Tensor | None] = {}  # most blocks of a prompt share one
    found, size = [], _BLOCK if tree_mask is None else n
    for start in range(0, n, size):
        rows, end, tree = min(size, n - start), total, tree_mask
        if tree is None:
            tree, end = torch.ones(rows, rows, dtype=torch.bool, device=device).tril_(), total - n + start + rows
        prefix = end - tree.shape[1]
        first = max(prefix - window + 1, 0)
        shape = (rows, end - first)
        if shape not in made:
            sees_all = tree_mask is None and rows == 1
            made[shape] = None if sees_all else _of_tree(tree, prefix - first, window)
        found.append(Block(slice(start, start + rows), slice(first, end), made[shape]))
    return found


def _of_tree(tree: Tensor, before: int, window: int) -> Tensor:
    """The mask [n, before + t] over the keys just before a tree and its own t, of which `tree` [n, t]."""
    since = tree.flip(1).cumsum(1).flip(1)  # nodes of the path from this one on
    unseen = before + tree.sum(1, keepdim=True) - window  # keys
    return torch.cat((torch.arange(before, device=tree.device) >= unseen, tree & (since <= window)), 1)
