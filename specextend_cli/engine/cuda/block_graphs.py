"""A block head's whole draft as one graph: the context of the committed tokens, the block behind it, and the tree.

The block's keys lie behind those of the context, wherever these end, and what a graph reads more than there are tokens
goes behind the block, where nothing sees it.
"""

from __future__ import annotations

import torch
from torch import Tensor

from specextend_cli.engine.block_head import BlockHead
from specextend_cli.engine.cache import KVCache
from specextend_cli.engine.config import TreeShape
from specextend_cli.engine.cuda import draft_ops
from specextend_cli.engine.cuda.capture import Capture, without_collections
from specextend_cli.engine.cuda.draft_ops import Level
from specextend_cli.engine.cuda.fused_block import FusedBlock
from specextend_cli.engine.cuda.pending_graphs import PENDING_BUCKETS, DraftModel, Pending, PendingGraphs
from specextend_cli.engine.cuda.step import MOST_SLOTS, PLACE, WORDS, StepInputs
from specextend_cli.engine.drafters.block import follow_paths, marginals, tree_of_marginals, tree_of_paths
from specextend_cli.engine.forward import HeadOutput
from specextend_cli.engine.tree import DraftTree


class BlockGraphs(PendingGraphs):
    """Captured at once, for trees of one width up to one depth. Any error of `capture`; ValueError: too many nodes."""

    def __init__(self, head: BlockHead, shape: TreeShape, capture: Capture) -> None:
        config = head.config
        self._head, self._block = head, config.block
        self.width, self.depth = min(shape.width, config.draft_vocabulary), max(min(shape.depth, config.depth), 1)
        weight = head.fc.weight
        model = DraftModel(
            FusedBlock(head, self.depth),
            head.embedding.num_embeddings,
            config.draft_vocabulary,
            head.vocabulary,
            head.fuse,
            weight.shape[1],
            weight.new_empty(0, config.hidden),
            windowed=any(config.windows),
        )
        if head.markov_head is None:
            self._found = torch.zeros(2, self.depth, self.width, dtype=torch.long, device=weight.device)
        else:
            if (self.depth + 1) * self.width > MOST_SLOTS:
                raise ValueError(f"{self.depth} levels of {self.width} nodes are more than {MOST_SLOTS}")
            self._paths = _Paths(model, self.width, self.depth, weight.device)
        super().__init__(model, torch.zeros(PLACE, dtype=torch.long, device=weight.device))
        with without_collections():
            self._capture(capture, head.new_cache(max(PENDING_BUCKETS) + self._block))

    def takes(self, pending: int, shape: TreeShape) -> bool:
        """See `WholeDrafts`. The depth may be smaller than the one that was captured."""
        width, depth = min(shape.width, self._model.most), min(shape.depth, self._head.config.depth)
        return width == self.width and depth <= self.depth and self._reads(pending)

    def grow(
        self, token: int, pending: Tensor, features: Tensor | None, position: int, cache: KVCache, shape: TreeShape
    ) -> DraftTree:
        """See `WholeDrafts`."""
        self._launch(pending, features, position, cache, self._block)
        depth = min(shape.depth, self.depth)
        if self._head.markov_head is None:
            return tree_of_marginals(token, self._found[:, :depth], shape)
        size = 1 + self.width + (depth - 1) * self.width**2
        return tree_of_paths(token, self._paths.level.tree[:, :size], shape)

    def _inputs(self, m: int) -> StepInputs:
        return StepInputs(m + self._block, 1, self._place.device, self._model.states, more=1, scattered=True)

    def _numbers(self, m: int, n: int, position: int, start: int) -> list[int]:
        """The context's and the block's, whose first token is the last pending one. Behind them: that one's row."""
        block = self._block
        tokens = [*[0] * (m + 1), *[self._head.config.mask_token] * (block - 1)]
        after = range(n, n + block)  # rows and positions of the block
        positions = [position + at for at in (*range(m), *after)]
        rows = [start + at for at in (*range(n), *range(n + block, m + block), *after)]
        words, lengths = [0] * (WORDS * (m + block)), (start + n + block, block)
        return [*tokens, *positions, *words, *rows, *lengths, *[0] * PLACE, n - 1]

    def _begin(self, pending: Pending) -> None:
        """All of the draft."""
        inputs, head, model = pending.inputs, self._head, self._model
        last = inputs.tokens[-self._block :][:1]
        last.copy_(inputs.tokens.index_select(0, inputs.more))
        out = self._read(pending)
        found = HeadOutput(out.logits, out.states[0])
        if head.markov_head is None:
            best = draft_ops.best(out.logits, self.width, model.most, model.vocabulary)
            self._found.copy_(marginals(head, found, *best))
        else:
            self._paths.restart()
            follow_paths(head, last, found, self._paths)


class _Paths:
    """The most probable paths of a block in device memory: a `Growing`."""

    def __init__(self, model: DraftModel, width: int, depth: int, device: torch.device) -> None:
        self.level = Level(width, 1 + width + (depth - 1) * width * width, device, None)
        self.tokens, self.above = self.level.inputs.tokens, self.level.above
        self._model, self._width = model, width
        self.restart()

    def restart(self) -> None:
        """The next children are the root's."""
        self._is_first = True

    def add_children(self, logits: Tensor, trust: Tensor | None = None) -> None:
        """See `Candidates`."""
        shares, tokens = draft_ops.best(logits, self._width, self._model.most, self._model.vocabulary)
        if trust is not None:
            shares = shares * trust[:, None]
        draft_ops.advance(self.level, shares, tokens, self.level.begin if self._is_first else None)
        self._is_first = False
