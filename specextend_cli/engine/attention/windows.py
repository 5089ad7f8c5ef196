"""Sliding windows: which queries of a forward meet which keys, under which mask, so that any back end can attend.

A query sees the keys of the newest `window` positions, its own included. A node's position is its depth, so along a
path of a tree, as in a prompt, positions are counted by the keys that a query sees; a working set has gaps, and is told
apart by its positions. Keys outside every window are cut off, and what is left is given to the back end as a tree with
a mask. A prompt's chunk is cut into blocks of queries: no mask is larger than [block, window + block]. In CUDA graphs,
where the host knows no lengths, Triton's kernel reads the first key that each query sees (`triton_tree.first_keys`).
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


def blocks(
    n: int, total: int, window: int, tree_mask: Tensor | None, positions: Tensor | None, device: torch.device
) -> list[Block]:
    """The blocks of n queries over `total` keys; the keys before the queries' own have ascending `positions`.

    `positions` [m] are those of the first m keys, the next ones follow; None: keys are in place from 0 on.
    """
    if total <= window and positions is None:
        return [Block(slice(0, n), slice(0, total), tree_mask)]
    made: dict[tuple[int, int], Tensor | None] = {}  # most blocks of a prompt share one
    found, size = [], _BLOCK if tree_mask is None else n
    for start in range(0, n, size):
        rows, end = min(size, n - start), total
        tree = tree_mask
        if tree is None:
            tree, end = torch.ones(rows, rows, dtype=torch.bool, device=device).tril_(), total - n + start + rows
        prefix = end - tree.shape[1]
        if positions is None:
            at, first = torch.arange(prefix, device=device), max(prefix - window + 1, 0)
        else:
            later = torch.arange(1, prefix - len(positions) + 1, device=device)
            at, first = torch.cat((positions, positions[-1] + later)), 0
        shape = (rows, end - first)
        if shape not in made or positions is not None:
            sees_all = tree_mask is None and rows == 1 and positions is None
            made[shape] = None if sees_all else _of_tree(tree, at[first:], window)
        found.append(Block(slice(start, start + rows), slice(first, end), made[shape]))
    return found


def _of_tree(tree: Tensor, at: Tensor, window: int) -> Tensor:
    """The mask [n, m + t] over keys at the ascending positions `at` [m] and a tree's t, of which `tree` [n, t]."""
    since = tree.flip(1).cumsum(1).flip(1)  # nodes of the path from this one on
    own = tree & (since <= window)
    root = at[-1:] + 1  # the position of nodes at depth 0
    return torch.cat((at + window >= root + tree.sum(1, keepdim=True), own), 1)
