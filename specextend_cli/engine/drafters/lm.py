"""A language model as the drafter: a small one, or the target itself over a small working set."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from specextend_cli.engine.cache import KVCache
from specextend_cli.engine.config import Retrieval
from specextend_cli.engine.drafters.model import ModelDrafter
from specextend_cli.engine.drafters.working_set import WorkingSet, rotary_frequencies
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.engine.target import Target
from specextend_cli.engine.transfer import upload
from specextend_cli.errors import ModelError


class LMDrafter(ModelDrafter):
    """Drafts with `lm`, whose token ids must mean what they mean to the target; it may have more of them, or fewer.

    Given the target's own model, it uses the target's keys and prefills nothing. For `window` see `ModelDrafter`.
    ModelError for a model with recurrent layers: its states cannot be those of a working set, or of a tree.
    """

    def __init__(self, lm: LanguageModel, target: Target, config: Retrieval, *, window: int | None = None) -> None:
        if lm.state_bytes:
            raise ModelError(
                f"{type(lm.model).__name__} cannot draft",
                why="some of its layers are recurrent: they have one state, and no keys to choose from",
                fix="draft by n-grams: --draft ngram",
            )
        self.lm = lm
        self.is_self = lm.model is target.lm.model
        self.name = "self" if self.is_self else "lm"
        working = WorkingSet(
            lm.new_cache,
            config,
            frequencies=rotary_frequencies(lm) if config.re_indexes else None,
            shared=target.cache if self.is_self else None,
        )
        super().__init__(lm, target, working, window=window)

    def observe(self, tokens: Sequence[int], features: Tensor | None, ids: Tensor | None = None) -> None:
        """See `Drafter`."""
        if self.is_self and not self._is_idle:
            self._last = tokens[-1]
            self._pending = (upload(tokens, self.device) if ids is None else ids)[-1:]  # the target has read the others
        else:
            super().observe(tokens, features, ids)

    def _forward(self, tokens: Tensor, positions: Tensor, cache: KVCache) -> Tensor:
        # The target may have tokens that the draft has not.
        ids = tokens.clamp(max=self.lm.vocabulary - 1)
        return self._shared(self.lm.forward(ids, positions, cache, logits_to_keep=1).logits)

    def _remember(self, tokens: Tensor, positions: Tensor, cache: KVCache) -> None:
        self._forward(tokens, positions, cache)

    def _expand(self, tokens: Tensor, parents: Tensor, positions: Tensor, tree_mask: Tensor) -> Tensor:
        backend = self.target.lm.backend
        return self._shared(self.lm.forward(tokens, positions, self.working.cache, tree_mask, backend=backend).logits)

    def _shared(self, logits: Tensor) -> Tensor:
        """Of the tokens that the target has."""
        return logits[:, : self.target.lm.vocabulary]
