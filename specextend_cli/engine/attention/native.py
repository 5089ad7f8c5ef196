"""When attention runs by our own CPU kernels (`native/attention.h`, `native/prompt.h`), and a tree's mask for them."""

from __future__ import annotations

import torch
from torch import Tensor

from specextend_cli.engine import native
from specextend_cli.engine.native.kernels import FORMATS

MOST = 64
"""Queries of a tree. More than one query without a tree are a prompt's."""


def fits(head_dim: int, dtype: torch.dtype, device: torch.device) -> bool:
    """Whether the kernels are loaded and take such queries."""
    return dtype in FORMATS and head_dim % 32 == 0 and device.type == "cpu" and native.is_loaded()


def additive(tree_mask: Tensor | None) -> Tensor:
    """A tree's mask [n, m] as the kernels take it, 0 or -inf; None stands for a single node, which sees itself."""
    if tree_mask is None:
        return torch.zeros(1, 1, dtype=torch.float32)
    return torch.zeros(tree_mask.shape, dtype=torch.float32).masked_fill_(~tree_mask, -torch.inf)
