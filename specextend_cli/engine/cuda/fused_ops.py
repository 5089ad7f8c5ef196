"""What a decoder's layer computes between its matrix products, one kernel launch each (`fused_kernels.py`).

On CUDA, or in Triton's interpreter. Nothing is read back, and allocations depend on shapes only.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

import torch
from torch import Tensor

from specextend_cli.engine.attention.triton_plan import MOST_REGISTERS, power_of_two
from specextend_cli.engine.attention.triton_tree import Window, attend_placed, first_keys
from specextend_cli.engine.cuda.step import StepInputs

__all__ = ["Norm", "Rope", "add_norm", "attend_placed", "first_keys", "gated", "rope_and_store", "store", "windows"]


class Norm(NamedTuple):
    """An RMS norm's weight [width] and epsilon."""

    weight: Tensor
    epsilon: float


class Rope(NamedTuple):
    """RoPE of the first `rotated` numbers of a head: `turns` [rotated / 2 + 1] (float32) are the angles per position,
    then the scale of cosines and sines."""

    turns: Tensor
    rotated: int


def windows(inputs: StepInputs, sizes: Collection[int | None]) -> dict[int | None, Window | None]:
    """What a forward sees through windows of these sizes, by size; None sees all."""
    n, held = inputs.rows // inputs.sequences, inputs
    found: dict[int | None, Window | None] = {None: None}
    for size in {size for size in sizes if size is not None}:
        found[size] = Window(size, first_keys(size, n, held.place, held.lengths, held.words))
    return found


def add_norm(
    x: Tensor, added: Tensor | None, norm: Norm, *, factor: float = 1.0, out: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """x [rows, width] + factor * added, and its norm; the norm goes to `out`, whose rows may lie apart."""
    from specextend_cli.engine.cuda.fused_kernels import add_norm_rows

    rows, width = x.shape
    total = x if added is None else torch.empty_like(x)
    normed = torch.empty_like(x) if out is None else out
    block = power_of_two(width)
    add_norm_rows[(rows,)](
        x,
        x if added is None else added,
        norm.weight,
        total,
        normed,
        factor,
        norm.epsilon,
        normed.stride(0),
        WIDTH=width,
        BLOCK=block,
        ADDS=added is not None,
        SCALES=factor != 1.0,
        num_warps=min(max(block // 512, 1), 8),
    )
    return total, normed


def rope_and_store(
    qkv: Tensor,
    heads: int,
    kv_heads: int,
    rope: Rope,
    norms: tuple[Norm, Norm] | None,
    place: Tensor,
    starts: Tensor,
    positions: Tensor,
    layer: int,
) -> Tensor:
    """Queries [rows, heads, d] after norms and RoPE; keys and values go to the cache at `place`.

    qkv [rows, (heads + 2 * kv_heads) * d], contiguous; rows are those of the sequences, one after the other, which go
    to cache rows from `starts` [sequences] on; `positions` [rows].
    """
    from specextend_cli.engine.cuda.fused_kernels import rotate_and_store

    rows, every = len(qkv), heads + 2 * kv_heads
    d = qkv.shape[1] // every
    queries = qkv.new_empty(rows, heads, d)
    q_norm, k_norm = norms or (None, None)
    rotate_and_store[(rows, every)](
        qkv,
        queries,
        place,
        starts,
        positions,
        rope.turns,
        qkv if q_norm is None else q_norm.weight,
        qkv if k_norm is None else k_norm.weight,
        layer,
        rows // len(starts),
        0.0 if q_norm is None else q_norm.epsilon,
        HEADS=heads,
        KV_HEADS=kv_heads,
        D=d,
        BLOCK_D=power_of_two(d),
        ROTATED=rope.rotated,
        NORMS=norms is not None,
        num_warps=1,
        maxnreg=MOST_REGISTERS,
    )
    return queries


def store(keys: Tensor, values: Tensor, like: Tensor, place: Tensor, starts: Tensor, layer: int) -> None:
    """Keys and values [sequences, kv_heads, n, d] of new tokens to the cache, of the number format of `like`."""
    from specextend_cli.engine.cuda.fused_kernels import store_rows

    b, heads, n, d = keys.shape
    store_rows[(b * n, heads)](
        keys,
        values,
        like,
        place,
        starts,
        layer,
        n,
        *keys.stride(),
        *values.stride(),
        D=d,
        BLOCK_D=power_of_two(d),
        num_warps=1,
    )


def gated(gate_up: Tensor) -> Tensor:
    """silu(gate) * up of gate_up [rows, 2 * width] -> [rows, width]."""
    from specextend_cli.engine.cuda.fused_kernels import gate_rows

    rows, width = len(gate_up), gate_up.shape[1] // 2
    out = gate_up.new_empty(rows, width)
    block = min(power_of_two(width), 1024)
    gate_rows[(rows, -(-width // block))](gate_up, out, WIDTH=width, BLOCK=block, num_warps=4)
    return out
