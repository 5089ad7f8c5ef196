"""Random queries, keys, values and trees for the attention kernels' tests."""

from __future__ import annotations

import torch


def inputs(heads: int, kv_heads: int, n: int, total: int, d: int, dtype: torch.dtype) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(n * total + d)
    shapes = (1, heads, n, d), (1, kv_heads, total, d), (1, kv_heads, total, d)
    return tuple(torch.randn(shape, generator=generator).to(dtype) for shape in shapes)


def random_tree_mask(n: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(n)
    mask = torch.eye(n, dtype=torch.bool)
    for i in range(1, n):
        mask[i] |= mask[int(torch.randint(0, i, (), generator=generator))]
    return mask
