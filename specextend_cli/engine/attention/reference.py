"""The golden back end: scaled-dot-product attention under one explicit mask. Slow and obvious."""

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
    folded = q.reshape(1, k.shape[1], -1, q.shape[3]).float()
    scores = torch.matmul(folded, k.float().transpose(-1, -2)).reshape(*q.shape[:3], total) * scale
    weights = softmax.weights(scores, mask).reshape(*folded.shape[:3], total)
    return torch.matmul(weights, v.float()).reshape(q.shape).to(q.dtype)
