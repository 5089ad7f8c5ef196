"""A language model as the drafter: a small one of its own, or the target itself over a small working set."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from specextend_cli.engine.attention import ForwardContext
from specextend_cli.engine.cache import KVCache
from specextend_cli.engine.config import Retrieval, TreeShape
from specextend_cli.engine.drafters.draft_cache import DraftCache, rotary_frequencies
from specextend_cli.engine.drafters.model import ModelDrafter
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.engine.target import Target
from specextend_cli.engine.tree import DraftTree, root
from specextend_cli.errors import ModelError

_PADDING = 512  # output heads are padded to round sizes; a larger difference means another vocabulary


class LMDrafter(ModelDrafter):
    """Drafts with `lm`, which must share the target's vocabulary.

    Given the target's own model, it uses the target's keys and prefills nothing. For `window` see `ModelDrafter`.
    """

    def __init__(self, lm: LanguageModel, target: Target, config: Retrieval, *, window: int | None = None) -> None:
        if abs(lm.vocabulary - target.lm.vocabulary) > _PADDING:
            raise ModelError(
                f"the draft has {lm.vocabulary:,} tokens in its vocabulary, the target {target.lm.vocabulary:,}",
                why="a draft must write in the target's own tokens",
                fix="choose a draft of the same family: specextend presets list",
            )
        self.lm = lm
        self.is_self = lm.model is target.lm.model
        self.name = "self" if self.is_self else "lm"
        working = DraftCache(
            lm.new_cache,
            config,
            frequencies=rotary_frequencies(lm) if config.re_indexes else None,
            shared=target.cache if self.is_self else None,
        )
        super().__init__(target, working, window=window)

    def observe(self, tokens: Sequence[int], features: Tensor | None) -> None:
        """See `Drafter`."""
        if self.is_self and not self.failure:
            self.working.note(tokens)
            self._pending = [tokens[-1]]  # the target has read the others
        else:
            super().observe(tokens, features)

    def propose(self, shape: TreeShape) -> DraftTree:
        """See `Drafter`."""
        if not self.is_self:
            return super().propose(shape)
        token = self._pending[-1]
        if self.failure or min(shape.nodes - 1, shape.depth, shape.forwards) == 0:
            return root(token, self.device)
        if self._in_prompt:
            self.working.choose(None)
            self._in_prompt = False
        self.working.follow()
        first = self._forward([token], self.working.positions(1), self.working.cache)
        # The root's keys are the target's to compute: ours go with the tree, one row ahead of its nodes.
        return self._grow(token, first, shape, ahead=1)

    def _forward(self, tokens: list[int], positions: Tensor, cache: KVCache) -> Tensor:
        # The target's padding rows may go beyond the draft's; they stand for no token, but a prompt could hold one.
        ids = torch.tensor(tokens, device=self.device).clamp_(max=self.lm.vocabulary - 1)
        return self._shared(self.lm.forward(ids, positions, cache, logits_to_keep=1).logits)

    def _expand(self, tokens: Tensor, parents: Tensor, positions: Tensor, this_pass: ForwardContext) -> Tensor:
        return self._shared(self.lm.forward(tokens, positions, self.working.cache, this_pass=this_pass).logits)

    def _shared(self, logits: Tensor) -> Tensor:
        return logits[:, : self.target.lm.vocabulary]
