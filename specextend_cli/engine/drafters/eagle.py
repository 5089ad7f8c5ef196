"""An EAGLE head, or the target's multi-token prediction layer, as the drafter: it continues the target's own states."""

from __future__ import annotations

import torch
from torch import Tensor

from specextend_cli.engine.cache import KVCache
from specextend_cli.engine.config import Retrieval
from specextend_cli.engine.drafters.model import ModelDrafter
from specextend_cli.engine.drafters.working_set import WorkingSet
from specextend_cli.engine.head import EagleHead
from specextend_cli.engine.mtp import MtpHead
from specextend_cli.engine.step import Step
from specextend_cli.engine.target import Target


class EagleDrafter(ModelDrafter):
    """Row i of its cache joins the target's state at position i with token i + 1, so rows are positions.

    States are the target's at committed positions and the head's own after them. For `window` see `ModelDrafter`.
    The working set of a head with a sliding window is no larger than that.
    """

    def __init__(self, head: EagleHead, target: Target, config: Retrieval, *, window: int | None = None) -> None:
        self.head = head.eval()
        self.name = "mtp" if isinstance(head, MtpHead) else "eagle3" if head.config.generation == 3 else "eagle"
        self.vocabulary = head.vocabulary
        self.most = head.config.sliding_window
        if self.most is not None:
            config = config.within(self.most)
            if head.config.layers > 1:  # the first layer's keys do not depend on what a token sees
                window = min(window or self.most, self.most // 2)  # a chunk sees itself and as much before it
        working = WorkingSet(head.new_cache, config, frequencies=head.frequencies)
        super().__init__(self.head, target, working, reads=head.config.feature_layers, window=window)
        self._states = torch.empty(0)  # the head's own, of the last drafted level

    def _forward(self, tokens: Tensor, positions: Tensor, cache: KVCache) -> Tensor:
        if len(tokens) > self.head.runner.most_rows:
            self._remember(tokens[:-1], positions[:-1], cache)
            tokens, positions = tokens[-1:], positions[-1:]
        # A chain is passed as a tree, for which attention is fast; without a mask the rows would be a prompt's.
        order = torch.arange(len(tokens), device=self.device)
        chain = order <= order[:, None] if len(tokens) > 1 else None
        features = self._take_features(len(tokens))
        logits = self._run(Step(tokens, positions, cache, chain, features=features, logits_to_keep=1))
        self._states = self._states[-1:]
        return logits

    def _remember(self, tokens: Tensor, positions: Tensor, cache: KVCache) -> None:
        backend, features = self.target.lm.backend, self._take_features(len(tokens))
        self.head.remember(Step(tokens, positions, cache, backend=backend, features=features))

    def _expand(self, tokens: Tensor, parents: Tensor, positions: Tensor, tree_mask: Tensor) -> Tensor:
        return self._run(Step(tokens, positions, self.working.cache, tree_mask, states=self._states[parents]))

    def _run(self, step: Step) -> Tensor:
        step.backend = self.target.lm.backend
        out = self.head.run(step)
        assert out.state is not None
        self._states = out.state
        return out.logits
