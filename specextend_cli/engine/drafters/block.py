"""A block drafter: DFlash and DSpark heads, of which one forward proposes all levels of a tree."""

from __future__ import annotations

from torch import Tensor

from specextend_cli.engine.block_head import BlockHead
from specextend_cli.engine.cache import KVCache
from specextend_cli.engine.config import Retrieval, TreeShape
from specextend_cli.engine.drafters.block_tree import block_tree
from specextend_cli.engine.drafters.draft_cache import DraftCache
from specextend_cli.engine.drafters.eagle import check_fits
from specextend_cli.engine.drafters.model import ModelDrafter
from specextend_cli.engine.target import Target
from specextend_cli.engine.tree import DraftTree


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
        rows = pending + head.config.block
        context = head.fuse(self._take_features(pending))
        last = self._pending[-1:]
        working.cache.reserve(rows)
        positions, backend = working.positions(rows), self.target.lm.backend
        depth = min(shape.depth, head.config.depth)
        out = head(last, context, positions, working.cache, backend, depth=depth)
        self._commit(pending)
        return block_tree(head, self._last, last, out, shape)

    def _remember(self, tokens: Tensor, positions: Tensor, cache: KVCache) -> None:
        cache.reserve(len(tokens))
        self.head.remember(self.head.fuse(self._take_features(len(tokens))), positions, cache)
