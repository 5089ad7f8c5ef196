"""Attention of a batch: one query of each of several sequences over its own keys."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from specextend_cli.engine.attention.softmax import PLAIN, SoftmaxOptions


def batched(
    q: Tensor, k: Tensor, v: Tensor, scale: float, tree_mask: Tensor | None, softmax: SoftmaxOptions = PLAIN
) -> Tensor:
    """A `Backend` with queries [b, H, 1, d]; `tree_mask` [b, T] says which keys each sequence sees, None: all.

    Query heads that share a key head are folded.
    """
    folded, seen = q.reshape(*k.shape[:2], -1, q.shape[3]), None if tree_mask is None else tree_mask[:, None, None]
    if softmax.is_plain:
        return scaled_dot_product_attention(folded, k, v, attn_mask=seen, scale=scale).reshape(q.shape)
    scores = torch.matmul(folded, k.transpose(2, 3)).float() * scale
    weights = softmax.weights(scores.reshape(len(q), -1, 1, k.shape[2]), seen)
    return torch.matmul(weights.reshape(scores.shape), v.float()).reshape(q.shape).to(q.dtype)
