"""The base of drafters whose model grows a tree level by level, one forward for each."""

from __future__ import annotations

from abc import abstractmethod

from torch import Tensor

from specextend_cli.engine.attention import ForwardContext
from specextend_cli.engine.cache import KVCache
from specextend_cli.engine.config import TreeShape
from specextend_cli.engine.drafters.draft_cache import DraftCache
from specextend_cli.engine.drafters.model import ModelDrafter
from specextend_cli.engine.drafters.opt_tree import grow
from specextend_cli.engine.head import EagleHead
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.engine.target import Target
from specextend_cli.engine.tree import DraftTree


class LevelDrafter(ModelDrafter):
    """Drafts with `model`; where its forward backend grows whole trees without the host, by that.

    `is_self`: the model is the target, which computes the committed tokens' keys itself.
    """

    is_self = False

    def __init__(
        self,
        model: EagleHead | LanguageModel,
        target: Target,
        working: DraftCache,
        *,
        reads: tuple[int, ...] = (),
        window: int | None = None,
    ) -> None:
        super().__init__(target, working, reads=reads, window=window)
        self.model = model

    @abstractmethod
    def _forward(self, tokens: Tensor, positions: Tensor, cache: KVCache) -> Tensor:
        """Run the first of the pending tokens; logits [1, draft vocabulary] of what follows the last."""

    @abstractmethod
    def _expand(self, tokens: Tensor, parents: Tensor, positions: Tensor, context: ForwardContext) -> Tensor:
        """Run one level of a tree; logits [w, draft vocabulary]. `parents` [w] are rows of the level before."""

    def _grown(self, shape: TreeShape) -> DraftTree:
        working, tokens = self.working, self._pending
        if self.is_self:
            working.follow()
        backend = self.model.forward_backend
        drafts = backend.drafts if backend else None
        if drafts is not None and drafts.takes(len(tokens), shape):
            features = self._take_features(len(tokens)) if self.reads else None
            tree = drafts.grow(self._last, tokens, features, working.next_position, working.cache, shape)
            self._keep(len(tokens))
            return tree
        first = self._forward(tokens, working.positions(len(tokens)), working.cache)
        self._keep(len(tokens))
        ahead = int(self.is_self)

        def expand(tokens: Tensor, parents: Tensor, depth: int, tree_mask: Tensor) -> Tensor:
            positions = working.positions(1, offset=depth - 1 + ahead).expand(len(tokens))
            context = ForwardContext(self.target.lm.backend, tree_mask=tree_mask)
            return self._expand(tokens, parents, positions, context)

        return grow(self._last, first, expand, shape, vocabulary=self.vocabulary)

    def _keep(self, tokens: int) -> None:
        """Commit the pending tokens' rows; those of the target's own keys are dropped with the tree."""
        if not self.is_self:
            self._commit(tokens)
