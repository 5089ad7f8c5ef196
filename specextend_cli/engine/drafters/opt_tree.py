"""Grows a draft tree level by level at its most probable nodes (OPT-Tree, arXiv 2406.17276)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import torch
from torch import Tensor

from specextend_cli.engine.config import TreeShape
from specextend_cli.engine.tree import DraftTree, root

Expand: TypeAlias = Callable[[Tensor, Tensor, int, Tensor], Tensor]
"""(tokens [w], parents [w], depth, tree_mask [w, slots]) -> log-probabilities [w, vocabulary] of the next tokens.

Called once per level. A level's w tokens take the next w slots of the drafter's cache; `tree_mask` marks the slots that
each of them sees, itself included. `parents` are rows of the level before (of the root: 0).
"""


def grow(token: int, first: Tensor, expand: Expand, shape: TreeShape, *, vocabulary: Tensor | None = None) -> DraftTree:
    """The `shape.nodes` most probable nodes around `token`; `first` [vocabulary] are log-probabilities after it.

    `vocabulary` [draft vocabulary] maps the rows of a drafter with a smaller vocabulary to tokens. A node's score is
    the product of the drafter's probabilities along its path; the sum of the best scores is the expected accepted
    length. On a processor, another level is drafted while the last one raised that sum by at least the threshold; on a
    device the host would have to wait for the sum of every level, and reads the finished tree alone.
    """
    device = first.device
    width = min(shape.width, first.shape[-1])
    if shape.depth == 0 or shape.nodes == 1:
        return root(token)
    tokens = [torch.zeros(1, dtype=torch.long, device=device)]
    parents = [tokens[0]]
    scores = [torch.ones(1, device=device)]
    threshold = shape.threshold if device.type == "cpu" else 0.0

    def likeliest(log_probabilities: Tensor) -> tuple[Tensor, Tensor]:
        best, ids = log_probabilities.float().topk(width)
        return best.exp(), ids if vocabulary is None else vocabulary[ids]

    level_scores, level_tokens = likeliest(first)
    level = torch.arange(1, width + 1, device=device)
    above = torch.zeros(width, dtype=torch.long, device=device)  # rows of the level before
    tokens.append(level_tokens)
    parents.append(torch.zeros(width, dtype=torch.long, device=device))
    scores.append(level_scores)
    count = 1 + width
    ancestors = torch.zeros(width, 0, dtype=torch.bool, device=device)  # [frontier, slots in the cache]
    expected = _expected(scores, shape.nodes) if threshold else 0.0

    for depth in range(1, min(shape.depth, shape.forwards)):
        own = torch.eye(len(level_tokens), dtype=torch.bool, device=device)
        ancestors = torch.cat((ancestors, own), 1)
        probabilities, ids = likeliest(expand(level_tokens, above, depth, ancestors))
        children = level_scores[:, None] * probabilities
        tokens.append(ids.flatten())
        parents.append(level.repeat_interleave(width))
        scores.append(children.flatten())
        # The next level expands the most probable children. All of them stay candidates for the tree.
        level_scores, chosen = children.flatten().topk(min(width, children.numel()))
        level_tokens, level = ids.flatten()[chosen], count + chosen
        above = chosen // width
        ancestors = ancestors[above]
        count += children.numel()
        if threshold:
            grown = _expected(scores, shape.nodes)
            if grown - expected < threshold:
                break
            expected = grown
    tree = DraftTree(torch.cat(tokens), torch.cat(parents), torch.cat(scores)).on_host()
    tree.tokens[0] = token
    return tree.best(shape.nodes)


def _expected(scores: list[Tensor], nodes: int) -> float:
    every = torch.cat(scores)
    return float(every.topk(min(nodes, len(every))).values.sum())
