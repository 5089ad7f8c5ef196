"""An assistant model as the drafter: it attends to the target's own keys, of which retrieval leaves a working set.

Drafted tokens have no keys, so a level of a tree is a forward of unrelated rows. In layers with a window it sees the
newest keys, as the target does.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from specextend_cli.engine.assistant import Assistant
from specextend_cli.engine.config import Retrieval, TreeShape
from specextend_cli.engine.drafters.base import SuspendableDrafter
from specextend_cli.engine.drafters.opt_tree import grow
from specextend_cli.engine.retrieval import working_set
from specextend_cli.engine.target import Target
from specextend_cli.engine.tree import DraftTree, root


class AssistantDrafter(SuspendableDrafter):
    """Keys stay at their own positions, whatever `config` says. It reads nothing itself, and stores nothing."""

    name = "assistant"
    reads_prompt = False  # a target may compute less where the newest state is enough

    def __init__(self, assistant: Assistant, target: Target, config: Retrieval) -> None:
        super().__init__((target.lm.layers,), config)
        self.assistant, self.target = assistant, target
        self.begin(0)

    @property
    def is_restricted(self) -> bool:
        """See `Drafter`."""
        return self.retrieves and self.target.length > self.config.size

    def begin(self, capacity: int) -> None:
        """See `Drafter`."""
        super().begin(capacity)
        self._last, self._state, self._seen = 0, torch.empty(0), 0
        self._chosen: Tensor | None = None  # of the first `_seen` positions

    def observe(self, tokens: Sequence[int], features: Tensor | None, ids: Tensor | None = None) -> None:
        """See `Drafter`."""
        self._last = tokens[-1]
        if features is not None and len(features):
            self._state = features[-1:].clone()

    def visible(self) -> Tensor:
        """See `Drafter`."""
        length, device = self.target.length, self.target.lm.device
        if self._chosen is None:
            return working_set(self.config, length, None, device)
        return torch.cat((self._chosen, torch.arange(self._seen, length, device=device)))

    def retrieve(self, scores: Tensor) -> None:
        """See `Drafter`."""
        self._seen = self.target.length
        self._chosen = working_set(self.config, self._seen, scores, self.target.lm.device)

    def propose(self, shape: TreeShape) -> DraftTree:
        """See `Drafter`."""
        if self._is_idle or not len(self._state) or min(shape.nodes - 1, shape.depth, shape.forwards) == 0:
            return root(self._last)
        device, keys = self.target.lm.device, self._keys()
        position = torch.full((1,), self.target.length, device=device)
        states = self._state

        def expand(tokens: Tensor, parents: Tensor, depth: int, tree_mask: Tensor) -> Tensor:
            nonlocal states
            out = self.assistant(tokens, states[parents], position, keys)
            assert out.state is not None
            states = out.state
            return out.logits

        last = torch.full_like(position, self._last)
        first = expand(last, torch.zeros_like(last), 0, torch.empty(0))
        return self._checked(grow(self._last, first, expand, shape))

    def _keys(self) -> dict[str, tuple[Tensor, Tensor]]:
        """What each kind of layer attends to: views, or copies of a working set, [1, kv heads, m, d]."""
        cache, assistant = self.target.cache, self.assistant
        chosen = self.visible() if self.retrieves else None
        found = dict[str, tuple[Tensor, Tensor]]()
        for kind, layer in assistant.sources.items():
            rows = cache.of_layer(layer)[..., : self.target.length, :]
            if kind == "sliding_attention" and assistant.window is not None:
                rows = rows[..., -(assistant.window - 1) :, :]  # the last token, which has no key yet, is one of them
            elif chosen is not None:
                rows = rows.index_select(3, chosen)
            found[kind] = rows[0], rows[1]
        return found
