"""Single kernels of the native library, on torch's tensors in bfloat16 or float32."""

from __future__ import annotations

import ctypes

import torch
from torch import Tensor

from specextend_cli.engine.native.shared_library import library
from specextend_cli.engine.tree import DraftTree

FORMATS = (torch.bfloat16, torch.float32)
"""Number formats of models that run natively."""


def on_torch_threads() -> ctypes.CDLL:
    """The native library, whose next calls compute with as many threads as torch has."""
    loaded = library()
    loaded.sx_threads(torch.get_num_threads())
    return loaded


def top_k(logits: Tensor, width: int) -> tuple[Tensor, Tensor]:
    """The `width` largest of each row of logits [n, columns], float32, best first: probabilities and columns."""
    n, columns = logits.shape
    if logits.dtype != torch.float32 or not 0 < width <= columns:
        raise ValueError(f"{width} of logits {list(logits.shape)} in {logits.dtype}")
    read, shares, ids = logits.contiguous(), torch.empty(n, width), torch.empty(n, width, dtype=torch.long)
    library().sx_top_k(read.data_ptr(), n, columns, width, shares.data_ptr(), ids.data_ptr())
    return shares, ids


def choose(logits: Tensor, context: Tensor, tree: DraftTree, penalty: float, ngram: int) -> Tensor:
    """The largest penalized logit of each row of logits [n, columns], float32 -> [n].

    Row i belongs to node i of the tree, whose root is the last token of the context [m] of what the penalties look back
    at. A repetition penalty of 1 and n-grams of 0 are none. Columns are not checked.
    """
    n, columns = logits.shape
    if logits.dtype != torch.float32 or len(tree) != n or context.dtype != torch.long:
        raise ValueError(f"a choice by logits {list(logits.shape)} in {logits.dtype} for {len(tree)} nodes")
    read, chosen, context = logits.contiguous(), torch.empty(n, dtype=torch.long), context.contiguous()
    numbers = ctypes.c_int64 * n
    library().sx_choose(
        *(read.data_ptr(), n, columns, context.data_ptr(), len(context)),
        *(numbers(*tree.tokens), numbers(*tree.parents), penalty, ngram, chosen.data_ptr()),
    )
    return chosen


def attend(q: Tensor, k: Tensor, v: Tensor, scale: float, mask: Tensor) -> Tensor:
    """Queries q [1, H, n, d] over keys and values k, v [1, H_kv, T, d] -> [1, H, n, d].

    `mask` [n, m], float32, is added to the scores of the last m keys. The result is a view of [1, n, H, d].
    """
    heads, kv_heads, n, total, d = _sizes(q, k, v)
    if mask.dtype != torch.float32 or len(mask) != n or mask.shape[1] > total or not mask.is_contiguous():
        raise ValueError(f"a tree's mask is float32 [{n}, at most {total}], not {mask.dtype} {list(mask.shape)}")
    q, out = q.contiguous(), q.new_empty(1, n, heads, d)
    k, v, by_head, by_row = _cached(k, v)
    on_torch_threads().sx_attend(
        *(q.dtype == torch.bfloat16, q.data_ptr(), kv_heads, heads // kv_heads, n, d),
        *(k.data_ptr(), v.data_ptr(), by_head, by_row, total),
        *(mask.shape[1], mask.data_ptr(), scale, out.data_ptr()),
    )
    return out.transpose(1, 2)


def attend_causal(
    q: Tensor, k: Tensor, v: Tensor, scale: float, *, window: int | None = None, cap: float | None = None
) -> Tensor:
    """Queries q [1, H, n, d], the last n of the keys and values k, v [1, H_kv, T, d], in causal order.

    A query sees the newest `window` keys, its own included; None: all. With a cap, score s becomes cap * tanh(s / cap).
    The result is a view of [1, n, H, d].
    """
    heads, kv_heads, n, total, d = _sizes(q, k, v)
    if n > total:
        raise ValueError(f"{n} queries, and {total} keys")
    q = q if q.stride(3) == 1 else q.contiguous()
    out = q.new_empty(1, n, heads, d)
    k, v, by_head, by_row = _cached(k, v)
    on_torch_threads().sx_attend_causal(
        *(q.dtype == torch.bfloat16, q.data_ptr(), q.stride(1), q.stride(2), kv_heads, heads // kv_heads, n, d),
        *(k.data_ptr(), v.data_ptr(), by_head, by_row, total, scale, cap or 0, window or 0, out.data_ptr()),
    )
    return out.transpose(1, 2)


def _sizes(q: Tensor, k: Tensor, v: Tensor) -> tuple[int, int, int, int, int]:
    """Heads, key heads, queries, keys and dimensions. ValueError where they do not fit."""
    one, heads, n, d = q.shape
    kv_heads, total = k.shape[1:3]
    fits = k.shape == v.shape == (1, kv_heads, total, d) and one == 1 and d % 32 == 0 and heads % kv_heads == 0
    if not fits or not q.dtype == k.dtype == v.dtype or q.dtype not in FORMATS:
        shapes = ", ".join(f"{x.dtype} {list(x.shape)}" for x in (q, k, v))
        raise ValueError(f"attention over other shapes or formats than [1, heads, n, 32 m]: {shapes}")
    return heads, kv_heads, n, total, d


def _cached(k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, int, int]:
    """Keys and values with the strides of their heads and rows, which have to be the same."""
    if k.stride(3) != 1 or k.stride() != v.stride():
        k, v = k.contiguous(), v.contiguous()
    return k, v, k.stride(1), k.stride(2)
