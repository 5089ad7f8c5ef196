"""Where a model looked: its attention summed over segments of what it reads."""

from __future__ import annotations

from collections.abc import Collection

import torch
from torch import Tensor
from torch.nn.functional import pad

ATTRIBUTION_INTERVAL = 4
"""Steps: looking at every one costs about 4% of decoding time (docs/trust.md)."""


def segment_attention(attention: Tensor, marks: Tensor) -> Tensor:
    """Attention [n, length] summed between `marks` [m], ascending positions: [n, m - 1]."""
    return pad(attention.cumsum(-1), (1, 0))[:, marks].diff(dim=-1)


class AttentionRecorder:
    """Watches one forward of a batch: `attention` [sequences, keys] of its tokens, mean over heads and `layers`."""

    def __init__(self, layers: Collection[int]) -> None:
        self.layers = layers
        self.attention = torch.zeros(())
        self._at = 0

    def see(self, q: Tensor, k: Tensor, scale: float, mask: Tensor | None) -> None:
        """One layer, in their order: q [b, kv_heads, group, d], k [b, kv_heads, T, d], mask [b, 1, 1, T]."""
        if self._at in self.layers:
            logits = torch.matmul(q, k.transpose(2, 3)).float() * scale
            seen = (logits if mask is None else logits + mask).softmax(-1).mean((1, 2))
            self.attention = self.attention + seen / len(self.layers)
        self._at += 1
