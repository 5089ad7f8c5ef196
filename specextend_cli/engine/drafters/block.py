"""A block drafter: DFlash and DSpark heads, of which one forward proposes a draft tree, as OPT-Tree (arXiv 2406.17276).

Without a Markov head the positions know nothing of each other's tokens: a path's probability is the product of its
positions' own, and the best nodes are found exactly. With one, each level's probabilities follow the token before, so
the best paths are followed level by level; that takes no forward. A confidence head's estimate multiplies the
probabilities of what follows: where it is low, deep nodes lose to shallow ones, and the gate cuts them off.
"""

from __future__ import annotations

from dataclasses import replace
from heapq import heappop, heappush
from typing import Protocol

import torch
from torch import Tensor

from specextend_cli.engine.block_head import BlockHead
from specextend_cli.engine.cache import KVCache
from specextend_cli.engine.config import Retrieval, TreeShape
from specextend_cli.engine.drafters.draft_cache import DraftCache
from specextend_cli.engine.drafters.eagle import check_fits
from specextend_cli.engine.drafters.model import ModelDrafter
from specextend_cli.engine.drafters.opt_tree import Candidates, best_tokens
from specextend_cli.engine.forward import HeadOutput
from specextend_cli.engine.target import Target
from specextend_cli.engine.tree import DraftTree, read


class BlockDrafter(ModelDrafter):
    """Row i of its cache has the keys and values of the target's state at position i.

    They do not depend on what was visible when they were computed, so a prompt is read without attention, and a working
    set of retrieved positions holds what the full cache does. The working set of a head whose layers all have sliding
    windows is no larger than these. ModelError for a head of another target.
    """

    def __init__(self, head: BlockHead, target: Target, config: Retrieval) -> None:
        check_fits(head, target)
        self.head = head.eval()
        self.name = head.config.name
        self.vocabulary = head.vocabulary
        self.most = head.config.sliding_window
        if self.most is not None:
            config = config.within(self.most)
        working = DraftCache(head.new_cache, config, frequencies=head.frequencies)
        super().__init__(target, working, reads=head.config.feature_layers)

    def _grown(self, shape: TreeShape) -> DraftTree:
        head, working, pending = self.head, self.working, len(self._pending)
        features, rows = self._take_features(pending), pending + head.config.block
        if head.drafts is not None and head.drafts.takes(pending, shape):
            position = working.next_position
            tree = head.drafts.grow(self._last, self._pending, features, position, working.cache, shape)
            self._commit(pending)
            return tree
        context, last = head.fuse(features), self._pending[-1:]
        working.cache.reserve(rows)
        positions, backend = working.positions(rows), self.target.lm.backend
        depth = min(shape.depth, head.config.depth)
        out = head(last, context, positions, working.cache, backend, depth=depth)
        self._commit(pending)
        return block_tree(head, self._last, last, out, shape)

    def _remember(self, tokens: Tensor, positions: Tensor, cache: KVCache) -> None:
        cache.reserve(len(tokens))
        self.head.remember(self.head.fuse(self._take_features(len(tokens))), positions, cache)


def block_tree(head: BlockHead, token: int, last: Tensor, out: HeadOutput, shape: TreeShape) -> DraftTree:
    """The best nodes around `token` that the block promises; the host reads its device once.

    `last` [1] is `token` on the device. Nodes with a score below `shape.floor` are left out.
    """
    width = min(shape.width, out.logits.shape[-1])
    if head.markov_head is None:
        return tree_of_marginals(token, marginals(head, out, *best_tokens(out.logits, width, head.vocabulary)), shape)
    found = Candidates(width, head.vocabulary, last.device)
    follow_paths(head, last, out, found)
    return tree_of_paths(token, found.rows, shape)


class Growing(Protocol):
    """See `Candidates`."""

    tokens: Tensor
    above: Tensor

    def add_children(self, logits: Tensor, trust: Tensor | None = None) -> None:
        """Of each node of the level."""


def marginals(head: BlockHead, out: HeadOutput, shares: Tensor, ids: Tensor) -> Tensor:
    """What the host reads of the best tokens of each position, shares and ids [d, width]: [2, d, width] (int64)."""
    if head.confidence_head is not None:
        shares = shares * head.confidence_head(out.states)[:, None]
    return torch.stack((shares.float().view(torch.int32).long(), ids))


def tree_of_marginals(token: int, found: Tensor, shape: TreeShape) -> DraftTree:
    """The nodes of highest product, in order of their scores; `found` are `marginals`, of which the host reads."""
    packed = found.cpu()
    levels: list[list[float]] = packed[0].int().view(torch.float32).tolist()
    choices: list[list[int]] = packed[1].tolist()
    width = len(levels[0])
    tokens, parents, scores = [token], [0], [1.0]
    # (minus score, order, parent, its score, depth, rank): the next best sibling of a node is known when it is taken.
    heap = [(-levels[0][0], 0, 0, 1.0, 0, 0)]
    while heap and len(tokens) < shape.nodes:
        negative, _, parent, above, depth, rank = heappop(heap)
        if -negative < shape.floor:
            break
        node = len(tokens)
        tokens.append(choices[depth][rank])
        parents.append(parent)
        scores.append(-negative)
        if rank + 1 < width:
            heappush(heap, (-above * levels[depth][rank + 1], 2 * node, parent, above, depth, rank + 1))
        if depth + 1 < len(levels):
            heappush(heap, (negative * levels[depth + 1][0], 2 * node + 1, node, -negative, depth + 1, 0))
    return _of_one_forward(DraftTree(tokens, parents, scores))


def follow_paths(head: BlockHead, last: Tensor, out: HeadOutput, found: Growing) -> None:
    """At each position, add the children of the most probable paths so far, the first of which is the `last` token."""
    markov, confidence = head.markov_head, head.confidence_head
    assert markov is not None
    before, memory = last, markov.start(last)
    for logits, state in zip(out.logits, out.states, strict=True):
        embedded = markov.markov_w1(before).to(state.dtype)
        states = state.expand(len(before), -1)
        bias, memory = markov(embedded, states, memory)
        trust: Tensor | None = None
        if confidence is not None:
            features = torch.cat((states, embedded), -1) if head.config.confidence_reads_token else states
            trust = confidence(features)
        found.add_children(logits + bias, trust)
        before, memory = found.tokens, memory[found.above]


def tree_of_paths(token: int, rows: Tensor, shape: TreeShape) -> DraftTree:
    """The best of all candidates, `rows` as `tree.read` takes them, of which the host reads."""
    tree = read(token, rows, shape.nodes, forwards=1)
    enough = sum(score >= shape.floor for score in tree.scores)
    return _of_one_forward(tree.best(max(enough, 1)) if tree.is_finite else tree)


def _of_one_forward(tree: DraftTree) -> DraftTree:
    """Every node was proposed by the same forward."""
    return replace(tree, known_after=[0] + [1] * (len(tree) - 1), forwards=1)
