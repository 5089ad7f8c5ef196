"""The base of drafters that read the target's hidden states at committed positions."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from specextend_cli.engine.drafters.draft_cache import DraftCache
from specextend_cli.engine.drafters.model import ModelDrafter
from specextend_cli.engine.target import Target


class StateDrafter(ModelDrafter):
    """Row i of its cache stands for the target's state at position i, which is known together with token i + 1.

    `reads` are the target's hidden states that it observes while it is not suspended.
    """

    def __init__(self, target: Target, working: DraftCache, reads: tuple[int, ...], *, window: int | None) -> None:
        super().__init__(target, working, window=window)
        self.reads = self.feature_layers = reads
        self._features: list[Tensor] = []  # of the positions whose rows are pending
        self._is_first = True

    def begin(self, capacity: int) -> None:
        """See `Drafter`."""
        super().begin(capacity)
        self._features = []
        self._is_first = True
        self.feature_layers = self.reads

    def suspend(self) -> None:
        """See `Drafter`."""
        super().suspend()
        self._features = []
        self.feature_layers = ()

    def observe(self, tokens: Sequence[int], features: Tensor | None, ids: Tensor | None = None) -> None:
        """See `Drafter`."""
        if features is not None and not self._is_idle:
            self._features.append(features)
        if self._is_first:  # no state precedes the first token, so it has no row
            self.working.note(tokens[:1])
            tokens, ids = tokens[1:], None if ids is None else ids[1:]
            self._is_first = False
        if tokens:
            super().observe(tokens, None, ids)

    def _take_features(self, n: int) -> Tensor:
        """See `ModelDrafter`."""
        features = torch.cat(self._features)
        left = features[n:]
        self._features = [left.clone()] if len(left) else []  # a copy: a view would keep the whole chunk
        return features[:n].to(self.working.cache.buffer.dtype)
