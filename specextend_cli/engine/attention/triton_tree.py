"""Hybrid tree attention as one split-KV Triton kernel: prefix and tree in a single pass over the keys.

`hybrid` runs a flash kernel over the prefix and computes the tree separately. Here the mask, packed into bits, is
applied to the last few blocks of the same loop, and the keys are split over the whole GPU however few the queries are.
triton is imported when the first kernel runs, so this module loads on machines without it.

The host reads nothing back, and allocations depend on shapes only, so a launch can be captured in a CUDA graph: with
the cache's addresses and the number of keys in device memory (`Placed`), one graph serves every cache and length.
"""

from __future__ import annotations

import math
import os
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from specextend_cli.engine.attention.flash_package import flash_attn, reads_prompts
from specextend_cli.engine.attention.hybrid import hybrid
from specextend_cli.engine.attention.softmax import PLAIN, SoftmaxOptions
from specextend_cli.engine.attention.triton_plan import MOST_REGISTERS, MOST_SPLITS, Plan, chip, plan, power_of_two

MOST_CAUSAL = 128  # queries without a mask; a longer prefill chunk is bound by arithmetic, not by reading keys
MOST_HEAD_DIM = 512
WORD = 64  # tree nodes per word of a mask
_ANY_LENGTH = 1 << 17  # keys, for which a launch in a graph has enough splits; of fewer keys, some splits have none
_LOG2_E = math.log2(math.e)


class Window(NamedTuple):
    """A window of `size` positions in one forward: `first` [sequences, n] (int32), the first key that a query sees."""

    size: int
    first: Tensor


class Placed(NamedTuple):
    """A layer of a cache that is found in device memory, for CUDA graphs: `addresses` as in `cuda/body.py`.

    Sequence i has `lengths[i]` keys; `lengths` [b + 1] (int64) ends with the number of keys at the end that are a
    tree's. Without a tree's mask a query sees all keys, or those in a `window`.
    """

    addresses: Tensor
    lengths: Tensor
    layer: int
    kv_heads: int
    window: Window | None = None


def triton_tree(
    q: Tensor, k: Tensor, v: Tensor, scale: float, tree_mask: Tensor | None, softmax: SoftmaxOptions = PLAIN
) -> Tensor:
    """See `Backend`. What the kernel does not take, prompts among it, goes to `hybrid` or `flash_attn`."""
    if not _takes(q, tree_mask):
        other = flash_attn if reads_prompts(q) else hybrid
        return other(q, k, v, scale, tree_mask, softmax)
    if tree_mask is None:
        return attend(q, k, v, scale, softmax=softmax)
    return attend(q, k, v, scale, words=pack(tree_mask), tree=tree_mask.shape[1], softmax=softmax)


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    scale: float,
    *,
    words: Tensor | None = None,
    tree: int | None = None,
    at: Placed | None = None,
    softmax: SoftmaxOptions = PLAIN,
    launch: Plan | None = None,
) -> Tensor:
    """q [b, H, n, d], any strides, -> [b, H, n, d], which lies in memory as [b, n, H, d].

    k, v [1, H_kv, T, d], any strides, are those of one sequence; with `at`, any tensors of the cache's number format.
    The last `tree` keys are a tree whose mask is `words` (see `pack`), of one sequence; without words they are the n
    queries' own, in causal order, and with `at`, n is 1. `launch` overrides the plan.
    """
    from specextend_cli.engine.attention.triton_kernels import attend_split, merge_splits

    b, heads, n, d = q.shape
    kv_heads, total = k.shape[1:3] if at is None else (at.kv_heads, _ANY_LENGTH)
    window = None if at is None else at.window
    most = total if window is None else min(window.size + WORD, total)
    groups, width = heads // kv_heads, power_of_two(d)
    cut = launch or plan(groups * n, most, b * kv_heads, d, k.element_size(), chip(q.device))
    merging = cut.splits > 1
    lse = torch.empty(cut.splits, b, n, heads, dtype=torch.float32, device=q.device)
    out = torch.empty(b, n, heads, d, dtype=q.dtype, device=q.device)
    parts = torch.empty(cut.splits, b, n, heads, d, dtype=torch.float32, device=q.device) if merging else out
    unused = lse  # a pointer that is not followed
    addresses, lengths, layer = (unused, unused, 0) if at is None else at[:3]
    strides = [(0, 0, 0) if at is not None else rows.stride()[1:] for rows in (k, v)]
    attend_split[(-(-groups * n // cut.rows), b * kv_heads, cut.splits)](
        q,
        k,
        v,
        unused if words is None else words,
        addresses,
        lengths,
        unused if softmax.sinks is None else softmax.sinks,
        unused if window is None else window.first,
        parts,
        lse,
        n,
        total,
        n if tree is None else tree,
        0 if words is None else words.shape[1],
        cut.splits,
        layer,
        scale * _LOG2_E if softmax.softcap is None else scale / softmax.softcap,
        (softmax.softcap or 1.0) * _LOG2_E,
        *q.stride(),
        *strides[0],
        *strides[1],
        KV_HEADS=kv_heads,
        GROUPS=groups,
        D=d,
        BLOCK_D=width,
        BLOCK_M=cut.rows,
        BLOCK_N=cut.keys,
        TAIL_N=min(cut.keys, WORD),
        CAUSAL=words is None,
        PLACED=at is not None,
        WINDOWED=window is not None,
        HAS_SINKS=softmax.sinks is not None,
        CAPPED=softmax.softcap is not None,
        PRECISION="ieee",  # of float32 only: TF32 would not be lossless
        num_warps=cut.warps,
        num_stages=cut.stages,
        maxnreg=MOST_REGISTERS,
    )
    if merging:
        # One block size for all numbers of splits: each would be compiled, and splits that are not there cost nothing.
        sizes = {"D": d, "BLOCK_D": width, "BLOCK_S": MOST_SPLITS}
        merge_splits[(b * n * heads,)](parts, lse, out, cut.splits, **sizes, num_warps=4 if width <= 256 else 16)
    return out.transpose(1, 2)


def first_keys(window: int, n: int, lengths: Tensor, words: Tensor | None) -> Window:
    """What n queries of each sequence see through a window; the others as for `attend`."""
    from specextend_cli.engine.attention import triton_kernels

    b, words_n = len(lengths) - 1, 0 if words is None else words.shape[1]
    first = torch.empty(b, n, dtype=torch.int32, device=lengths.device)
    triton_kernels.first_keys[(n, b)](
        *(lengths if words is None else words, lengths, first, window, words_n),
        SLOTS=power_of_two(words_n * WORD),
        CAUSAL=words is None,
        num_warps=1,
    )
    return Window(window, first)


def pack(mask: Tensor, out: Tensor | None = None) -> Tensor:
    """A mask [n, t] (bool) as bits [n, ceil(t / 64)] (int64): bit j of word w is node 64 w + j.

    `out` may have more rows and words, which become zeros.
    """
    bits = pad(mask, (0, -mask.shape[1] % WORD)).unflatten(1, (-1, WORD)).long()
    words: Tensor = (bits << torch.arange(WORD, device=mask.device)).sum(-1)
    if out is None:
        return words
    out.zero_()[: len(words), : words.shape[1]] = words
    return out


def _takes(q: Tensor, tree_mask: Tensor | None) -> bool:
    """On CUDA; on the CPU in Triton's interpreter, which has no products in bfloat16."""
    precise = q.dtype in (torch.float32, torch.float16)
    here = precise or q.dtype == torch.bfloat16 if q.is_cuda else precise and os.environ.get("TRITON_INTERPRET") == "1"
    return here and q.shape[3] <= MOST_HEAD_DIM and (tree_mask is not None or q.shape[2] <= MOST_CAUSAL)
