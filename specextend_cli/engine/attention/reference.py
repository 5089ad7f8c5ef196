"""The golden back end: scaled-dot-product attention under one explicit mask. Slow and obvious. And that of batches."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from specextend_cli.engine.attention.softmax import PLAIN, SoftmaxOptions


def reference(
    q: Tensor, k: Tensor, v: Tensor, scale: float, tree_mask: Tensor | None, softmax: SoftmaxOptions = PLAIN
) -> Tensor:
    """See `Backend`. Materializes the [n, T] mask."""
    n, total = q.shape[2], k.shape[2]
    causal = torch.ones(n, n, dtype=torch.bool, device=q.device).tril_()
    tree = causal if tree_mask is None else tree_mask
    mask = torch.ones(n, total, dtype=torch.bool, device=q.device)
    mask[:, total - tree.shape[1] :] = tree
    if softmax.is_plain:
        return scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=scale, enable_gqa=True)
    return softmax.join(*masked(q, k, v, scale, mask, softmax))[0].to(q.dtype)


def batched(
    q: Tensor, k: Tensor, v: Tensor, scale: float, tree_mask: Tensor | None, softmax: SoftmaxOptions = PLAIN
) -> Tensor:
    """A `Backend` of one query of each of several sequences, [b, H, 1, d], over its own keys.

    `tree_mask` [b, T] says which keys each sequence sees, None: all. Query heads that share a key head are folded.
    """
    seen = None if tree_mask is None else tree_mask[:, None, None]
    if softmax.is_plain:
        folded = q.reshape(*k.shape[:2], -1, q.shape[3])
        return scaled_dot_product_attention(folded, k, v, attn_mask=seen, scale=scale).reshape(q.shape)
    return softmax.join(*masked(q, k, v, scale, seen, softmax))[0].to(q.dtype)


def masked(
    q: Tensor, k: Tensor, v: Tensor, scale: float, seen: Tensor | None, softmax: SoftmaxOptions = PLAIN
) -> tuple[Tensor, Tensor]:
    """All scores, in float32: out [b, H, n, d], log-sum-exp [b, H, n]. Sinks are left to `join`.

    `seen` (bool) broadcasts to the scores [b, H, n, T]; None: every key.
    """
    folded = q.reshape(*k.shape[:2], -1, q.shape[3]).float()
    products = torch.matmul(folded, k.float().transpose(-1, -2)).mul_(scale)
    scores = softmax.scores(products.reshape(*q.shape[:3], -1), seen)
    lse = scores.logsumexp(-1)
    weights = (scores - lse[..., None]).exp_().reshape(products.shape)
    return torch.matmul(weights, v.float()).reshape(q.shape), lse
