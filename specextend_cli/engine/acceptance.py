"""Acceptance: follow the draft tree as far as it agrees with the target's choices, however these were made."""

from __future__ import annotations

from typing import NamedTuple

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
    because siblings are distinct. The host reads the choice and nothing else.
    """
    chosen: list[int] = choice.tolist()
    if len(tree) == 1:
        return Acceptance([0], chosen)
    tokens, parents = tree.tokens, tree.parents
    depths = [0] * len(chosen)  # of the paths of right nodes, else -1
    for node in range(1, len(chosen)):
        above = parents[node]
        is_right = depths[above] >= 0 and tokens[node] == chosen[above]
        depths[node] = depths[above] + 1 if is_right else -1
    path = [max(range(len(chosen)), key=depths.__getitem__)]
    while path[0]:
        path.insert(0, parents[path[0]])
    return Acceptance(path, [chosen[node] for node in path])
