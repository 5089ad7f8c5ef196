"""A prompt's attention in bfloat16 on CPUs without our kernels: matrix products, one tile of queries at a time.

torch's flash kernel for CPUs multiplies bfloat16 at a third of the speed of matrix products on the same CPU. A tile of
queries is therefore multiplied with all of its keys in one product, small enough to stay in the CPU's cache, normalized
in place, and multiplied with the values in another.

The product rounds scores to bfloat16, finely near zero and coarsely far from it. Therefore an estimate of each row's
largest score is subtracted inside the product, as one more dimension in which every key is 1. Softmax is invariant to a
shift of a row, so any estimate is correct; a good one moves the scores that matter near zero.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import pad

_SCORES = 3 << 20  # per tile: 6 MB, a core's share of the last-level cache
_LEAST, _MOST = 64, 768  # rows of a tile; a larger one computes more scores above the diagonal
_EXTRA = 2  # dimensions for the shift; an odd number would leave the fast path


def tiled(q: Tensor, k: Tensor, v: Tensor, scale: float) -> Tensor:
    """q [1, H, n, d], the last n of the T positions of k, v [1, H_kv, T, d], in causal order -> [1, H, n, d]."""
    _, heads, total, d = k.shape
    groups, n = q.shape[1] // heads, q.shape[2]
    count = min(max(min(max(_SCORES // total, _LEAST), _MOST) // groups, 1), n)
    scores = q.new_empty(groups * count * total)
    later = torch.full((count, count), -torch.inf, dtype=q.dtype).triu(1)
    queries = pad(q * scale, (0, _EXTRA)).view(heads, groups, n, d + _EXTRA)
    queries[..., d] = -_likely_largest(queries[..., :d], k[0])
    keys = pad(k[0], (0, _EXTRA), value=1.0)
    out = torch.empty_like(q, memory_format=torch.contiguous_format)
    for head, rows in enumerate(out.view(heads, groups, n, d)):
        for start in range(0, n, count):
            end = min(start + count, n)
            seen = total - n + end
            tile = scores[: groups * (end - start) * seen].view(-1, seen)
            torch.mm(queries[head, :, start:end].flatten(0, 1), keys[head, :seen].T, out=tile)
            diagonal = tile.view(groups, -1, seen)[..., seen - end + start :]
            diagonal += later[: end - start, : end - start]
            torch.softmax(tile, -1, out=tile)
            rows[:, start:end] = (tile @ v[0, head, :seen]).view(groups, -1, d)
    return out


def _likely_largest(queries: Tensor, keys: Tensor) -> Tensor:
    """An estimate of each query's largest score: that with its own key or with the first, which often is a sink."""
    own = keys[:, None, -queries.shape[2] :]
    return torch.maximum((queries * own).sum(-1), (queries * keys[:, None, :1]).sum(-1))
