"""States of recurrent layers at a place in device memory: one launch computes all rows of a forward, one keeps a row.

On CUDA, or in Triton's interpreter. Nothing is read back. Without a tree's `words`, row i is the next token of sequence
i, and its new state is stored at once; of a tree, `keep` stores that of one row.
"""

from __future__ import annotations

import torch
from torch import Tensor

from specextend_cli.engine.attention.triton_plan import power_of_two
from specextend_cli.engine.cuda.step import WORDS, Recurrence

_TILE = 2048  # numbers of a state in one program's registers


def windows(
    new: Tensor, size: int, layer: int, at: Tensor, words: Tensor | None, last: Tensor | None = None
) -> Tensor | None:
    """What a convolution of `size` sees at each row: [rows, channels, size]. `new` [b, channels, n] are its inputs.

    With `last`, nothing is computed but the state after that row, which is stored.
    """
    from specextend_cli.engine.cuda.recurrent_kernels import window_rows

    b, channels, n = new.shape
    out = new.new_empty(b * n, channels, size) if last is None else None
    block = min(power_of_two(channels), 256)
    window_rows[(b * n if last is None else 1, -(-channels // block))](
        new,
        new if out is None else out,
        at,
        at if words is None else words,
        at if last is None else last,
        layer,
        new.stride(0) if words is None else new.stride(2),
        new.stride(1),
        CHANNELS=channels,
        SIZE=size,
        WIDE=power_of_two(size),
        BLOCK=block,
        WORDS=WORDS,
        TREE=words is not None,
        KEEPS=last is not None,
        num_warps=4,
    )
    return out


def recur(
    given: Recurrence, dtype: torch.dtype, layer: int, at: Tensor, words: Tensor | None, last: Tensor | None = None
) -> Tensor | None:
    """The output [rows, heads, V] of each row. With `last`, only the state after that row is stored."""
    from specextend_cli.engine.cuda.recurrent_kernels import recur_rows

    q, k, v, decay, beta = given[:5]
    (rows, key_heads, size), (_, heads, width) = k.shape, v.shape
    out = v.new_empty(rows, heads, width, dtype=dtype) if last is None else None
    block_k = power_of_two(size)
    block_v = min(max(_TILE // block_k, 1), power_of_two(width))
    recur_rows[(rows if last is None else 1, heads, -(-width // block_v))](
        q,
        k,
        v,
        decay,
        beta,
        v if out is None else out,
        at,
        at if words is None else words,
        at if last is None else last,
        layer,
        *q.stride()[:2],
        *k.stride()[:2],
        *v.stride()[:2],
        given.scale,
        HEADS=heads,
        KEY_HEADS=key_heads,
        K=size,
        V=width,
        BLOCK_K=block_k,
        BLOCK_V=block_v,
        WORDS=WORDS,
        NORMS=given.normed,
        TREE=words is not None,
        KEEPS=last is not None,
        num_warps=4,
    )
    return out
