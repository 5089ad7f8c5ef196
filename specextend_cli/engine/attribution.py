"""Attention attribution: a model's attention, summed over segments of its prompt."""

from __future__ import annotations

from collections.abc import Collection

import torch
from torch import Tensor
from torch.nn.functional import pad

from specextend_cli.engine.attention.softmax import PLAIN, SoftmaxOptions

ATTRIBUTION_INTERVAL = 4
"""Steps between two measurements; measuring at every step costs about 4% of decoding time."""

_DEPTH = 0.58  # of the layers: chosen on documents with one known fact a page


def attribution_layers(layers: int) -> tuple[int, ...]:
    """The layers, of a model with so many, whose attention best shows which segment a token was taken from."""
    first = int(_DEPTH * layers)
    return tuple(range(first, min(first + 2, layers)))


def segment_attention(attention: Tensor, segment_starts: Tensor) -> Tensor:
    """Attention [n, length] summed between `segment_starts` [m], ascending positions: [n, m - 1]."""
    return pad(attention.cumsum(-1), (1, 0))[:, segment_starts].diff(dim=-1)


class AttentionRecorder:
    """Records one forward of a batch: `attention` [sequences, keys] of its tokens, mean over heads and `layers`.

    `layers` are numbers among those that attend. A row sums to 1; what sinks take is left out.
    """

    def __init__(self, layers: Collection[int], keys: int) -> None:
        self.layers, self.keys = layers, keys
        self.attention = torch.zeros(())
        self._at = 0

    def record(self, q: Tensor, k: Tensor, scale: float, seen: Tensor | None, softmax: SoftmaxOptions = PLAIN) -> None:
        """One layer, in their order: q [b, kv_heads, group, d], k [b, kv_heads, T, d], which keys are `seen` [b, T].

        The keys may be the newest only, those in a window.
        """
        if self._at in self.layers:
            shares = attention(q, k, scale, seen, softmax).mean((1, 2))
            if softmax.sinks is not None:
                shares = shares / shares.sum(-1, keepdim=True)
            self.attention = self.attention + pad(shares, (self.keys - k.shape[2], 0)) / len(self.layers)
        self._at += 1


def attention(q: Tensor, k: Tensor, scale: float, seen: Tensor | None, softmax: SoftmaxOptions) -> Tensor:
    """Attention [b, kv_heads, group, T] (float32) of one query per sequence and head; see `record`."""
    scores = torch.matmul(q, k.transpose(2, 3)).float() * scale
    by_head = scores.reshape(len(q), -1, 1, k.shape[2])
    return softmax.weights(by_head, None if seen is None else seen[:, None, None]).reshape(scores.shape)
