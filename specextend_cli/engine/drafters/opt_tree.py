"""Grows a draft tree level by level at its most probable nodes (OPT-Tree, arXiv 2406.17276)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import nlargest
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
    width = min(shape.width, first.shape[-1])
    if first.device.type == "cpu":
        return _on_host(token, first, expand, shape, vocabulary, width).best(shape.nodes)
    return _on_device(token, first, expand, shape, vocabulary, width)


def _on_host(
    token: int, first: Tensor, expand: Expand, shape: TreeShape, vocabulary: Tensor | None, width: int
) -> DraftTree:
    """All candidates, in Python's numbers: for a few nodes they take less time than small tensors."""
    tokens, parents, scores = [token], [0], [1.0]

    def add_children(level: Sequence[int], logits: Tensor) -> range:
        added = len(tokens)
        shares, ids = best_tokens(logits, width, vocabulary)
        for node, some, own in zip(level, shares.tolist(), ids.tolist(), strict=True):
            for share, child in zip(some, own, strict=True):
                tokens.append(child)
                parents.append(node)
                scores.append(scores[node] * share)
        return range(added, len(tokens))

    def expected() -> float:
        return sum(nlargest(shape.nodes, scores))

    level: Sequence[int] = add_children([0], first)
    above = [0] * width  # rows of the level before
    seen = [[slot] for slot in range(width)]  # slots of each row's path
    slots, promised = width, expected()
    before, ran = 1.0, 1
    for depth in range(1, min(shape.depth, shape.forwards)):
        if shape.threshold and promised - before < shape.threshold:
            break
        ran += 1
        mask = torch.tensor([[slot in path for slot in range(slots)] for path in seen])
        rows = torch.tensor([tokens[node] for node in level])
        children = add_children(level, expand(rows, torch.tensor(above), depth, mask))
        # The next level expands the most probable children. All of them stay candidates for the tree.
        chosen = nlargest(width, children, key=scores.__getitem__)
        above = [level.index(parents[node]) for node in chosen]
        seen = [[*seen[row], slots + place] for place, row in enumerate(above)]
        level, slots, before, promised = chosen, slots + width, promised, expected()
    return DraftTree(tokens, parents, scores, forwards=ran)


def _on_device(
    token: int, first: Tensor, expand: Expand, shape: TreeShape, vocabulary: Tensor | None, width: int
) -> DraftTree:
    """All candidates, as tensors that the host reads when all levels are grown."""
    device, ran = first.device, max(min(shape.depth, shape.forwards), 1)
    nodes, count = torch.zeros(1, dtype=torch.long, device=device), 1
    scores, logits = torch.ones(1, device=device), first
    found = [(nodes, nodes, scores)]  # tokens, parents and scores of all candidates, the root first
    ancestors = torch.zeros(1, 0, dtype=torch.bool, device=device)  # [level, slots in the cache]
    for depth in range(1, ran + 1):
        shares, ids = best_tokens(logits, width, vocabulary)
        tokens, children = ids.flatten(), (scores[:, None] * shares).flatten()
        found.append((tokens, nodes.repeat_interleave(width), children))
        if depth == ran:
            break
        # The next level expands the most probable children. All of them stay candidates for the tree.
        scores, chosen = children.topk(min(width, len(children)))
        nodes, above, count = count + chosen, chosen // width, count + len(children)
        ancestors = torch.cat((ancestors[above], torch.eye(len(chosen), dtype=torch.bool, device=device)), 1)
        logits = expand(tokens[chosen], above, depth, ancestors)
    every, parents, values = (torch.cat(parts) for parts in zip(*found, strict=True))
    return read(token, torch.stack((every, parents, values.view(torch.int32).long())), shape.nodes, forwards=ran)


def best_tokens(logits: Tensor, width: int, vocabulary: Tensor | None) -> tuple[Tensor, Tensor]:
    """The `width` best probabilities of each row of logits [n, draft vocabulary], and their tokens."""
    if logits.device.type == "cpu" and native.is_loaded():
        shares, ids = top_k(logits.float(), width)
    else:
        best, ids = logits.float().log_softmax(-1).topk(width)
        shares = best.exp()
    return shares, ids if vocabulary is None else vocabulary[ids]
