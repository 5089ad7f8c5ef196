"""Acceptance: follow the draft tree as far as it agrees with the target's choices, however these were made."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from specextend_cli.engine.tree import DraftTree


class Acceptance(NamedTuple):
    """`path`: accepted nodes, root first. `tokens`: the emitted ones, those of accepted nodes and the bonus token."""

    path: list[int]
    tokens: list[int]


def accept(tree: DraftTree, choice: Tensor) -> Acceptance:
    """The deepest path that agrees with the target's `choice` [n], one token per node.

    A node is right when its token is the target's choice at its parent. A path of right nodes is what plain decoding
    emits, whether the choice is argmax or a draw from the target's distribution. At most one child of a node is right,
    because siblings are distinct. The host reads the device once.
    """
    if len(tree) == 1:
        return Acceptance([0], choice.tolist())
    right = tree.tokens == choice[tree.parents]
    right[0] = True
    alive = (~tree.mask | right).all(-1)
    deepest = torch.where(alive, tree.depths, -1).argmax()
    on_path, tokens, bonus = torch.stack(
        (tree.mask[deepest].long(), tree.tokens, choice[deepest].expand(len(tree)))
    ).tolist()
    path = [node for node, on in enumerate(on_path) if on]
    return Acceptance(path, [tokens[node] for node in path[1:]] + [bonus[0]])
