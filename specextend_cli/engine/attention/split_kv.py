"""Split-KV attention for CPUs (as in Flash-Decoding): few queries over many keys, on every thread.

With one task per key head, three key heads keep two threads busy three quarters of the time. Cut into parts, the keys
make enough tasks; the parts' softmaxes merge by their log-sum-exps. The tree's mask is additive over the last part: a
few hundred kilobytes at 8K tokens, and cheaper here than hybrid tree attention's second softmax over the tree, whose
many small operations cost more to call than to compute.

Our own kernels do the same in one operation where they are loaded (`native/attention.h`).
"""

from __future__ import annotations

from math import gcd

import torch
from torch import Tensor

from specextend_cli.engine import native
from specextend_cli.engine.attention.hybrid import flash, hybrid
from specextend_cli.engine.attention.softmax import PLAIN, SoftmaxOptions
from specextend_cli.engine.native.kernels import FORMATS, attend, attend_causal

MOST = 64
"""Queries of a tree. More than one query without a tree are a prompt's."""
_SHORTEST = 128  # keys per part; with fewer, a split costs more than it saves
_MOST = 4  # parts


class SplitKV:
    """A `Backend`, one for each model: it keeps the mask of the present forward, which all layers share."""

    def __init__(self) -> None:
        self._tree: Tensor | None = None
        self._shape: tuple[object, ...] = ()
        self._mask: Tensor | None = None

    def __call__(
        self, q: Tensor, k: Tensor, v: Tensor, scale: float, tree_mask: Tensor | None, softmax: SoftmaxOptions = PLAIN
    ) -> Tensor:
        """See `Backend`. Tensors that are not on a CPU and softmaxes with options go to `hybrid`."""
        n, total = q.shape[2], k.shape[2]
        if q.device.type != "cpu" or not softmax.is_plain:
            return hybrid(q, k, v, scale, tree_mask, softmax)
        if tree_mask is None and n > 1:
            return _prefill(q, k, v, scale)
        if n <= MOST and _has_kernel(q):
            return self._by_kernel(q, k, v, scale, tree_mask)
        tree = 0 if tree_mask is None else tree_mask.shape[1]
        heads = k.shape[1]
        parts = _parts(heads, total, tree)
        step = total // parts
        length = total - step * (parts - 1)  # parts of equal size, for one call; they overlap by a few keys
        groups = q.shape[1] // heads
        folded = q.reshape(1, heads, groups * n, -1).expand(parts, -1, -1, -1)
        mask = self._masked(tree_mask, n, groups, parts, step, length, q.dtype)
        out, lse = flash(folded, _cut(k, parts, step, length), _cut(v, parts, step, length), scale, mask=mask)
        if parts > 1:
            weights = lse.softmax(0)[..., None]
            out = (out * weights).sum(0)
        return out.reshape(q.shape).to(q.dtype)

    def _by_kernel(self, q: Tensor, k: Tensor, v: Tensor, scale: float, tree_mask: Tensor | None) -> Tensor:
        if self._mask is None or self._shape or self._tree is not tree_mask:
            self._tree, self._shape, self._mask = tree_mask, (), additive(tree_mask)
        return attend(q, k, v, scale, self._mask)

    def _masked(
        self, tree_mask: Tensor | None, n: int, groups: int, parts: int, step: int, length: int, dtype: torch.dtype
    ) -> Tensor | None:
        """The additive mask of each part [parts, 1, groups * n, length]; None where everything is visible."""
        overlap = length - step if parts > 1 else 0
        if tree_mask is None and not overlap:
            return None
        shape = (parts, step, length, groups, dtype)
        if self._shape != shape or self._tree is not tree_mask:
            mask = torch.zeros(parts, 1, n, length, dtype=dtype)
            mask[1:, ..., :overlap] = -torch.inf  # keys of the part before
            if tree_mask is not None:
                mask[-1, 0, :, length - tree_mask.shape[1] :].masked_fill_(~tree_mask, -torch.inf)
            self._tree, self._shape, self._mask = tree_mask, shape, mask.repeat(1, 1, groups, 1)
        return self._mask


def fits(head_dim: int, dtype: torch.dtype, device: torch.device) -> bool:
    """Whether the kernels are loaded and take such queries."""
    return dtype in FORMATS and head_dim % 32 == 0 and device.type == "cpu" and native.is_loaded()


def additive(tree_mask: Tensor | None) -> Tensor:
    """A tree's mask [n, m] as the kernels take it, 0 or -inf; None stands for a single node, which sees itself."""
    if tree_mask is None:
        return torch.zeros(1, 1, dtype=torch.float32)
    return torch.zeros(tree_mask.shape, dtype=torch.float32).masked_fill_(~tree_mask, -torch.inf)


def _prefill(q: Tensor, k: Tensor, v: Tensor, scale: float) -> Tensor:
    """A prompt's chunk."""
    return attend_causal(q, k, v, scale) if _has_kernel(q) else hybrid(q, k, v, scale, None)


def _has_kernel(q: Tensor) -> bool:
    return fits(q.shape[3], q.dtype, q.device) and not q.requires_grad


def _parts(heads: int, total: int, tree: int) -> int:
    """As many parts as keep all threads equally busy, of at least `_SHORTEST` keys; the last one holds the tree."""
    threads = torch.get_num_threads()
    wanted = min(threads // gcd(heads, threads), _MOST)
    return max(min(wanted, total // (max(_SHORTEST, 2 * tree) + _MOST)), 1)


def _cut(keys: Tensor, parts: int, step: int, length: int) -> Tensor:
    """A view [parts, heads, length, d] of keys [1, heads, total, d]; parts begin `step` keys apart."""
    _, heads, _, d = keys.shape
    _, by_head, by_key, by_dim = keys.stride()
    return keys.as_strided((parts, heads, length, d), (step * by_key, by_head, by_key, by_dim))
