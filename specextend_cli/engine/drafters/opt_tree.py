"""Grows a draft tree level by level at its most probable nodes (OPT-Tree, arXiv 2406.17276)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import torch
from torch import Tensor

from specextend_cli.engine import native
from specextend_cli.engine.config import TreeShape
from specextend_cli.engine.native.kernels import top_k
from specextend_cli.engine.tree import DraftTree, read

Expand: TypeAlias = Callable[[Tensor, Tensor, int, Tensor], Tensor]
"""(tokens [w], parents [w], depth, tree_mask [w, slots]) -> logits [w, draft vocabulary] of the next tokens.

Called once per level. A level's w tokens take the next w slots of the drafter's cache; `tree_mask` marks the slots that
each of them sees, itself included. `parents` are rows of the level before (of the root: 0).
"""


def grow(token: int, first: Tensor, expand: Expand, shape: TreeShape, *, vocabulary: Tensor | None = None) -> DraftTree:
    """The `shape.nodes` most probable nodes around `token`; `first` [1, draft vocabulary] are logits after it.

    `vocabulary` [draft vocabulary] maps the rows of a drafter with a smaller vocabulary to tokens. A node's score is
    the product of the drafter's probabilities along its path; the sum of the best scores is the expected accepted
    length. On a processor, another level is drafted while the last one raised that sum by at least the threshold; on a
    device the host would have to wait for the sum of every level, and reads the finished tree alone.
    """
    device, width, most = first.device, min(shape.width, first.shape[-1]), max(min(shape.depth, shape.forwards), 1)
    nodes, count = torch.zeros(1, dtype=torch.long, device=device), 1
    scores, logits = torch.ones(1, device=device), first
    found = [(nodes, nodes, scores)]  # tokens, parents and scores of all candidates, the root first
    ancestors = torch.zeros(1, 0, dtype=torch.bool, device=device)  # [level, slots in the cache]
    best, expected = scores, 1.0
    for depth in range(1, most + 1):
        shares, ids = best_tokens(logits, width, vocabulary)
        tokens, children = ids.flatten(), (scores[:, None] * shares).flatten()
        found.append((tokens, nodes[:, None].expand(-1, width).flatten(), children))
        if depth == most:
            break
        if shape.threshold and device.type == "cpu":
            before, best = expected, torch.cat((best, children))
            best = best if len(best) <= shape.nodes else best.topk(shape.nodes).values
            expected = float(best.sum())
            if expected - before < shape.threshold:
                break
        # The next level expands the most probable children. All of them stay candidates for the tree.
        scores, chosen = children.topk(width)
        nodes, above, count = count + chosen, chosen // width, count + len(children)
        ancestors = torch.cat((ancestors[above], torch.eye(width, dtype=torch.bool, device=device)), 1)
        logits = expand(tokens[chosen], above, depth, ancestors)
    every, parents, values = (torch.cat(parts) for parts in zip(*found, strict=True))
    rows = torch.stack((every, parents, values.view(torch.int32).long()))
    return read(token, rows, shape.nodes, forwards=len(found) - 1)


def best_tokens(logits: Tensor, width: int, vocabulary: Tensor | None) -> tuple[Tensor, Tensor]:
    """The `width` best probabilities of each row of logits [n, draft vocabulary], and their tokens."""
    if logits.device.type == "cpu" and native.is_loaded():
        shares, ids = top_k(logits.float(), width)
    else:
        best, ids = logits.float().log_softmax(-1).topk(width)
        shares = best.exp()
    return shares, ids if vocabulary is None else vocabulary[ids]
