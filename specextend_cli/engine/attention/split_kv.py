"""Split-KV attention for CPUs (as in Flash-Decoding): few queries over many keys, on every thread, by our own kernels.

With one task per key head, three key heads keep two threads busy three quarters of the time. Cut into parts, the keys
make enough tasks; the parts' softmaxes merge by their log-sum-exps (`native/attention.h`). Without the kernels torch's
takes the tree's mask over all keys: cheaper than hybrid tree attention's second softmax over the tree, whose many small
operations cost more to call than to compute.
"""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor
from torch.nn.functional import pad, scaled_dot_product_attention

from specextend_cli.engine import native
from specextend_cli.engine.attention.hybrid import hybrid
from specextend_cli.engine.attention.softmax import PLAIN, SoftmaxOptions
from specextend_cli.engine.native.kernels import FORMATS, attend, attend_causal

MOST = 64
"""Queries of a tree. More than one query without a tree are a prompt's."""


def split_kv(
    q: Tensor, k: Tensor, v: Tensor, scale: float, tree_mask: Tensor | None, softmax: SoftmaxOptions = PLAIN
) -> Tensor:
    """See `Backend`. Prompts without kernels, other devices and softmaxes with options go to `hybrid`."""
    n, is_prompt = q.shape[2], tree_mask is None and q.shape[2] > 1
    has_kernel = fits(q.shape[3], q.dtype, q.device) and not q.requires_grad
    if q.device.type != "cpu" or not softmax.is_plain or (is_prompt and not has_kernel):
        return hybrid(q, k, v, scale, tree_mask, softmax)
    if is_prompt:
        return attend_causal(q, k, v, scale)
    if has_kernel and n <= MOST:
        return attend(q, k, v, scale, additive(tree_mask))
    heads = k.shape[1]
    mask = None if tree_mask is None else _over_all(tree_mask, q.shape[1] // heads, k.shape[2], q.dtype)
    folded = q.reshape(1, heads, -1, q.shape[3])
    return scaled_dot_product_attention(folded, k, v, attn_mask=mask, scale=scale).reshape(q.shape)


@lru_cache(maxsize=1)  # all layers share it
def _over_all(tree_mask: Tensor, groups: int, total: int, dtype: torch.dtype) -> Tensor:
    """A tree's mask [n, m] as torch's kernel takes it: [1, 1, groups * n, total], over all keys."""
    mask = additive(tree_mask)
    return pad(mask, (total - mask.shape[1], 0)).to(dtype).repeat(groups, 1)[None, None]


def fits(head_dim: int, dtype: torch.dtype, device: torch.device) -> bool:
    """Whether the kernels are loaded and take such queries."""
    return dtype in FORMATS and head_dim % 32 == 0 and device.type == "cpu" and native.is_loaded()


@lru_cache(maxsize=1)
def additive(tree_mask: Tensor | None) -> Tensor:
    """A tree's mask [n, m] as the kernels take it, 0 or -inf; None stands for a single node, which sees itself."""
    if tree_mask is None:
        return torch.zeros(1, 1, dtype=torch.float32)
    return torch.zeros(tree_mask.shape, dtype=torch.float32).masked_fill_(~tree_mask, -torch.inf)
