"""What a head's checkpoint has in common with its target: copies of its matrices, and a part of its vocabulary."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

_COMPARED = 4096  # rows of two matrices that are compared at a time


def is_copy(own: Tensor | None, theirs: Any) -> bool:
    """Whether a matrix of the head is one of the target's: DeepSpec's have both, a gigabyte for a large vocabulary."""
    weight, bias = getattr(theirs, "weight", None), getattr(theirs, "bias", None)
    if own is None or bias is not None or not isinstance(weight, Tensor) or own.shape != weight.shape:
        return False
    rows = zip(own.split(_COMPARED), weight.split(_COMPARED), strict=True)
    return all(torch.equal(some.to(other), other) for some, other in rows)


def check_vocabulary(tensors: dict[str, Tensor], vocabulary: int) -> None:
    """Take `t2d` out, and let `draft_to_target` be int64; ValueError where they do not name distinct tokens, or others.

    `vocabulary`: tokens that the target has.
    """
    chosen = tensors.pop("t2d", None)
    if "draft_to_target" not in tensors:
        return
    offsets = tensors["draft_to_target"] = tensors["draft_to_target"].long()
    named = offsets + torch.arange(len(offsets))
    if int(named.min()) < 0 or int(named.max()) >= vocabulary:
        raise ValueError("d2t names tokens that the target does not have")
    if len(named.unique()) < len(named):
        raise ValueError("d2t names a token twice")
    if chosen is not None and not torch.equal(chosen.bool().nonzero().squeeze(-1), named.sort().values):
        raise ValueError("d2t and t2d name different tokens")
