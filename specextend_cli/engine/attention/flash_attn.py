"""Hybrid tree attention on the flash-attn package, where installed: its kernels take grouped heads as they are."""

from __future__ import annotations

import torch
from torch import Tensor

from specextend_cli.engine.attention.hybrid import hybrid, masked, merge


def flash_attn(q: Tensor, k: Tensor, v: Tensor, scale: float, tree_mask: Tensor | None) -> Tensor:
    """See `Backend`. Half precision on CUDA; anything else goes to torch's kernels."""
    if not q.is_cuda or q.dtype not in (torch.float16, torch.bfloat16):
        return hybrid(q, k, v, scale, tree_mask)
    if tree_mask is None:
        return _run(q, k, v, scale, causal=True)[0]  # aligned to the last keys: a chunk over its prefix and itself
    prefix = k.shape[2] - tree_mask.shape[1]
    out, lse = masked(q, k[:, :, prefix:], v[:, :, prefix:], scale, tree_mask)
    if prefix == 0:
        return out.to(q.dtype)
    dense, dense_lse = _run(q, k[:, :, :prefix], v[:, :, :prefix], scale, causal=False)
    return merge(dense, dense_lse, out, lse).to(q.dtype)


def _run(q: Tensor, k: Tensor, v: Tensor, scale: float, *, causal: bool) -> tuple[Tensor, Tensor]:
    from flash_attn import flash_attn_func

    rows_first = (tensor.transpose(1, 2) for tensor in (q, k, v))
    out, lse, _ = flash_attn_func(*rows_first, softmax_scale=scale, causal=causal, return_attn_probs=True)
    return out.transpose(1, 2), lse
