"""Attention by our own CPU kernels: of few queries (`native/attention.h`) and of a prompt's (`native/prompt.h`)."""

from __future__ import annotations

import torch
from torch import Tensor

from specextend_cli.engine import native

MOST = 64
"""Queries of a tree. More than one query without a tree are a prompt's."""


def fits(head_dim: int, dtype: torch.dtype, device: torch.device) -> bool:
    """Whether the kernels are loaded and take such queries."""
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

    `mask` [n, m], float32, is added to the scores of own keys; with `hidden` [b, 1, 1, seen], each sequence of a batch
    ends at its first -inf.
    """
    out: Tensor = torch.ops.specextend.attend(q, *own, *cached, mask, hidden, scale)
    return out


def attend_causal(q: Tensor, own: tuple[Tensor, Tensor], cached: tuple[Tensor, Tensor], scale: float) -> Tensor:
    """Queries q [1, H, n, d] over `cached` [1, H_kv, seen, d] and, causally, over `own` [1, H_kv, n, d].

    The result is a view of [1, n, H, d], the layout that transformers continues with.
    """
    out: Tensor = torch.ops.specextend.attend_causal(q, *own, *cached, scale)
    return out.transpose(1, 2)


def additive(tree_mask: Tensor | None) -> Tensor:
    """A tree's mask [n, m] as `attend` takes it, 0 or -inf; None stands for a single node, which sees itself."""
    if tree_mask is None:
        return torch.zeros(1, 1, dtype=torch.float32)
    return torch.zeros(tree_mask.shape, dtype=torch.float32).masked_fill_(~tree_mask, -torch.inf)
