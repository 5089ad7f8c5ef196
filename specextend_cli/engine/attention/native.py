"""Attention by our own kernels for processors: of few queries (`native/attention.h`), and a prompt's (`prompt.h`)."""

from __future__ import annotations

import torch
from torch import Tensor

from specextend_cli.engine import native

MOST = 64
"""Queries of a tree; more than one without a tree are a prompt's."""


def fits(head_dim: int, dtype: torch.dtype, device: torch.device) -> bool:
    """Whether the kernels are there, and for such queries."""
    known = dtype in (torch.bfloat16, torch.float32) and head_dim % 32 == 0
    return known and device.type == "cpu" and native.is_loaded()


def attend(
    q: Tensor,
    own: tuple[Tensor, Tensor],
    cached: tuple[Tensor, Tensor],
    scale: float,
    mask: Tensor,
    hidden: Tensor | None = None,
) -> Tensor:
    """Queries q [b, H, n, d] over `cached` [b, H_kv, seen, d] and `own` [b, H_kv, m, d] keys and values.

    `mask` [n, m], float32, is added to the scores of own keys; in `hidden` [b, 1, 1, seen], each sequence of a batch
    ends at the first -inf.
    """
    out: Tensor = torch.ops.specextend.attend(q, *own, *cached, mask, hidden, scale)
    return out


def attend_causal(q: Tensor, own: tuple[Tensor, Tensor], cached: tuple[Tensor, Tensor], scale: float) -> Tensor:
    """Queries q [1, H, n, d] over `cached` [1, H_kv, seen, d], and of `own` [1, H_kv, n, d] those up to their own.

    The result is a view of [1, n, H, d], which is how transformers goes on with it.
    """
    out: Tensor = torch.ops.specextend.attend_causal(q, *own, *cached, scale)
    return out.transpose(1, 2)


def additive(tree_mask: Tensor | None) -> Tensor:
    """What a tree's queries see of its keys [n, m], as `attend` wants it; None for one that sees itself."""
    if tree_mask is None:
        return torch.zeros(1, 1, dtype=torch.float32)
    return torch.zeros(tree_mask.shape, dtype=torch.float32).masked_fill_(~tree_mask, -torch.inf)
