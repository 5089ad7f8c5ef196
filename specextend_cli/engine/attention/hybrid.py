"""Hybrid tree attention (LongSpec, arXiv 2502.17421; SpecExtend, section 3): a dense prefix and a small masked tree.

Every query sees the whole prefix, so that part needs no mask and runs on a flash kernel; only the tree's few keys need
one. Two softmaxes over disjoint keys merge exactly by their log-sum-exps:

    out = w * prefix + (1 - w) * tree,   w = sigmoid(lse_prefix - lse_tree)

Grouped queries are folded into the query axis instead of repeating keys: the prefix has no order to disturb.
"""

from __future__ import annotations

import torch
from torch import Tensor

from specextend_cli.engine.attention.kernels import flash


def hybrid(q: Tensor, k: Tensor, v: Tensor, scale: float, tree_mask: Tensor | None) -> Tensor:
    """See `Backend`. Never materializes anything of size n x T."""
    n, total = q.shape[2], k.shape[2]
    if n == 1 and (tree_mask is None or tree_mask.shape[1] == 1):
        # Plain decoding: the one query sees every key.
        return _unfold(flash(_fold(q, k), k, v, scale)[0], q)
    tree = n if tree_mask is None else tree_mask.shape[1]
    prefix = total - tree
    k_tree, v_tree = k[:, :, prefix:], v[:, :, prefix:]
    if tree_mask is None:
        out, lse = _causal(q, k_tree, v_tree, scale)
    else:
        out, lse = masked(q, k_tree, v_tree, scale, tree_mask)
    if prefix == 0:
        return out.to(q.dtype)
    dense, dense_lse = flash(_fold(q, k), k[:, :, :prefix], v[:, :, :prefix], scale)
    return merge(_unfold(dense, q), dense_lse.reshape(lse.shape), out, lse).to(q.dtype)


def merge(a: Tensor, lse_a: Tensor, b: Tensor, lse_b: Tensor) -> Tensor:
    """Attention over the union of two disjoint key sets, from the outputs [.., n, d] and log-sum-exps [.., n]."""
    return torch.lerp(b.float(), a.float(), torch.sigmoid(lse_a - lse_b)[..., None])


def _fold(q: Tensor, k: Tensor) -> Tensor:
    """[1, H, n, d] -> [1, H_kv, G * n, d]."""
    return q.reshape(1, k.shape[1], -1, q.shape[3])


def _unfold(out: Tensor, q: Tensor) -> Tensor:
    return out.reshape(q.shape)


def _causal(q: Tensor, k: Tensor, v: Tensor, scale: float) -> tuple[Tensor, Tensor]:
    """A chunk of prompt over itself. Heads of one group go side by side with a stride-0 view of their shared key."""
    groups = q.shape[1] // k.shape[1]
    by_group = (k.shape[1], groups, q.shape[2], q.shape[3])
    grouped = q.reshape(by_group)
    shared_k, shared_v = k.transpose(0, 1).expand(by_group), v.transpose(0, 1).expand(by_group)
    out, lse = flash(grouped, shared_k, shared_v, scale, causal=True)
    return out.reshape(q.shape), lse.reshape(q.shape[:3])


def masked(q: Tensor, k: Tensor, v: Tensor, scale: float, mask: Tensor) -> tuple[Tensor, Tensor]:
    """The tree: n x t scores in float32, small enough to do by hand."""
    kv_heads, d = k.shape[1], k.shape[3]
    scores = torch.matmul(q.reshape(1, kv_heads, -1, d).float(), k.float().transpose(-1, -2))
    scores = scores.reshape(*q.shape[:3], k.shape[2]).mul_(scale).masked_fill_(~mask, -torch.inf)
    lse = scores.logsumexp(-1)
    weights = (scores - lse[..., None]).exp_()
    out = torch.matmul(weights.reshape(1, kv_heads, -1, k.shape[2]), v.float())
    return out.reshape(q.shape), lse
