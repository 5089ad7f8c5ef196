"""Attention over a prefix in the cache and a few own keys that are not written there yet.

It is hybrid tree attention (see `hybrid.py`) for compiled layers, which read the cache and write nothing. The prefix is
cut into parts of equal size, so that every thread has some (see `split_kv.py`); keys left over join the own ones. The
same formula serves a tree, a single token and a batch of single tokens.
"""

from __future__ import annotations

import torch
from torch import Tensor

from specextend_cli.engine.attention.hybrid import flash


def attend_beside(
    q: Tensor,
    own: tuple[Tensor, Tensor],
    cached: tuple[Tensor, Tensor],
    seen: int,
    scale: float,
    mask: Tensor,
    parts: int,
    hidden: Tensor | None = None,
    *,
    looped: bool = False,
) -> Tensor:
    """Queries q [b, H, n, d] over the first `seen` of `cached` [b, H_kv, capacity, d], and `own` [b, H_kv, n, d].

    `mask` [n, parts - 1 + n] is added to the scores of the keys beside the prefix (see `beside`); `hidden`
    [b, 1, 1, seen], only with one part, to those of the prefix. `seen` is at least `parts`. `looped` uses `loops`,
    which is faster than torch's flash kernel where it is compiled to loops and rows are very few.
    """
    b, heads, n, d = own[0].shape
    groups = q.shape[1] // heads
    folded = q.reshape(b, heads, groups * n, d)
    step, rest = seen // parts, seen - (parts - 1)
    keys, values = (x[:, :, : step * parts].unflatten(2, (parts, step)).movedim(2, 0).flatten(0, 1) for x in cached)
    attend = loops if looped else flash
    out, lse = attend(folded.expand(parts, b, -1, -1, -1).flatten(0, 1), keys, values, scale, mask=hidden)
    out, lse = out.float().unflatten(0, (parts, b)), lse.unflatten(0, (parts, b))
    k, v = (torch.cat((c[:, :, rest:seen], o), 2).float() for c, o in zip(cached, own, strict=True))
    scores = torch.matmul(folded.float(), k.transpose(2, 3)) * scale
    scores = (scores.reshape(b, heads, groups, n, -1) + mask).reshape(b, heads, groups * n, -1)
    top = torch.maximum(scores.amax(-1), lse.amax(0))
    weights, prefix = (scores - top[..., None]).exp(), (lse - top).exp()
    total = weights.sum(-1) + prefix.sum(0)
    joined: Tensor = (torch.matmul(weights, v) + (out * prefix[..., None]).sum(0)) / total[..., None]
    return joined.to(q.dtype).reshape(q.shape)


def loops(q: Tensor, k: Tensor, v: Tensor, scale: float, *, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """The same as `flash`, in elementwise operations."""
    scores = (q[:, :, :, None].float() * k[:, :, None].float()).sum(-1) * scale
    if mask is not None:
        scores = scores + mask
    top = scores.amax(-1, keepdim=True)
    weights = (scores - top).exp()
    total = weights.sum(-1)
    out = (weights[..., None] * v[:, :, None].float()).sum(-2) / total[..., None]
    return out, top[..., 0] + total.log()


def beside(tree_mask: Tensor | None, seen: int, parts: int) -> Tensor:
    """The mask [n, parts - 1 + n] of `attend_beside`: of the parts - 1 newest cached keys, those left over are seen."""
    n = 1 if tree_mask is None else len(tree_mask)
    mask = torch.zeros(n, parts - 1 + n, dtype=torch.float32)
    mask[:, : parts - 1 - seen % parts] = -torch.inf
    if tree_mask is not None:
        mask[:, parts - 1 :].masked_fill_(~tree_mask, -torch.inf)
    return mask
