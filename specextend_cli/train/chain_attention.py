"""Attention of one step of unrolled drafting, with its gradient (the mask of EAGLE-3's training-time test).

A row of step k sees all rows of step 0 that are at least k places before it, and of each later step m one row: the one
k - m places before it. Only the rows of step 0 need a product of matrices. Of the other steps, each row needs a
scalar product each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from specextend_cli.engine.attention.softmax import PLAIN, SoftmaxOptions


@dataclass(frozen=True)
class ChainAttention:
    """A differentiable `Backend` for the rows of `step`.

    Keys are those of the prompt, then as many as there are rows for each step so far. `visible` [rows, rows] tells
    which rows of step 0 each row of this step sees, besides the whole prompt; a row of step 0 sees itself.
    """

    visible: Tensor
    step: int

    def __call__(
        self, q: Tensor, k: Tensor, v: Tensor, scale: float, tree_mask: Tensor | None, softmax: SoftmaxOptions = PLAIN
    ) -> Tensor:
        """q [1, H, rows, d]; k, v [1, H_kv, prompt + rows * (step + 1), d] -> [1, H, rows, d]."""
        groups = q.shape[1] // k.shape[1]
        queries = (q[0] * scale).unflatten(0, (-1, groups))
        rows, dense = q.shape[2], k.shape[2] - self.step * q.shape[2]
        # Row i of a later step m meets row i - (step - m) there; rows before the first one are never counted.
        later = [
            torch.stack([some.roll(self.step - 1 - m, 1) for m, some in enumerate(x[0, :, dense:].split(rows, 1))], 2)
            if self.step
            else x.new_empty(x.shape[1], rows, 0, x.shape[3])
            for x in (k, v)
        ]
        out: Tensor = _Attention.apply(  # type: ignore[no-untyped-call]
            queries, k[0, :, :dense], v[0, :, :dense], *later, self.visible
        )
        return out.flatten(0, 1)[None]


@dataclass(frozen=True)
class MaskedAttention:
    """A differentiable `Backend` under one mask [n, keys]; without one, of rows that see those before them."""

    mask: Tensor | None = None

    def __call__(
        self, q: Tensor, k: Tensor, v: Tensor, scale: float, tree_mask: Tensor | None, softmax: SoftmaxOptions = PLAIN
    ) -> Tensor:
        """As of any `Backend`."""
        causal = self.mask is None
        return scaled_dot_product_attention(q, k, v, self.mask, is_causal=causal, scale=scale, enable_gqa=True)


class _Attention(torch.autograd.Function):
    """Softmax over dense keys [G, n, d] and each row's own keys [G, rows, steps, d], for queries [G, g, rows, d].

    Written out because automatic differentiation fills and adds arrays of the scores' size for every slice of them.
    """

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, own_k: Tensor, own_v: Tensor, visible: Tensor) -> Tensor:
        folded = q.flatten(1, 2)
        weights = (folded @ k.transpose(1, 2)).view(*q.shape[:3], -1)
        weights[..., -len(visible) :].masked_fill_(~visible, float("-inf"))
        own = (own_k[:, None] @ q[..., None])[..., 0]
        top = weights.amax(-1, keepdim=True)
        if own.shape[-1]:
            top = torch.maximum(top, own.amax(-1, keepdim=True))
        weights, own = weights.sub_(top).exp_(), (own - top).exp()
        total = weights.sum(-1, keepdim=True) + own.sum(-1, keepdim=True)
        out = (weights.flatten(1, 2) @ v).view_as(q) + (own[..., None, :] @ own_v[:, None])[..., 0, :]
        out = out / total
        ctx.save_for_backward(q, k, v, own_k, own_v, weights, own, total, out)
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, own_k, own_v, weights, own, total, out = ctx.saved_tensors
        grad = gradients[0] / total
        common = (grad * out).sum(-1, keepdim=True)
        folded = grad.flatten(1, 2)
        scores = (folded @ v.transpose(1, 2)).view_as(weights).sub_(common).mul_(weights)
        own_scores = ((own_v[:, None] @ grad[..., None])[..., 0] - common) * own
        grad_q = (scores.flatten(1, 2) @ k).view_as(q) + (own_scores[..., None, :] @ own_k[:, None])[..., 0, :]
        grad_k = scores.flatten(1, 2).transpose(1, 2) @ q.flatten(1, 2)
        grad_v = weights.flatten(1, 2).transpose(1, 2) @ folded
        grad_own_k = (own_scores[..., None] * q[..., None, :]).sum(1)
        grad_own_v = (own[..., None] * grad[..., None, :]).sum(1)
        return grad_q, grad_k, grad_v, grad_own_k, grad_own_v, None
