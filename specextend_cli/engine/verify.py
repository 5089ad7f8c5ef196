"""Acceptance: follow the draft tree as far as it says what the target chose. It does not know how the target chose."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from specextend_cli.engine.tree import DraftTree


class Acceptance(NamedTuple):
    """`path`: accepted nodes, root first. `tokens`: what is emitted, the accepted nodes' tokens and the bonus token."""

    path: list[int]
    tokens: list[int]


def accept(tree: DraftTree, choice: Tensor) -> Acceptance:
    """The deepest node all of whose path agrees with the target's `choice` [n], one token per node.

    A node is right when its token is what the target chose at its parent; the path of a right node whose ancestors
    are right is exactly what plain decoding would have emitted, whatever made the choice: argmax, or a draw from the
    target's distribution. Distinct siblings mean that at most one child of a node is right. Reads from the device once.
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
