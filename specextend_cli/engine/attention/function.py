"""The function transformers calls in every attention layer, and what one forward means to it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from transformers import AttentionInterface

NAME = "specextend"


class Backend(Protocol):
    """q [1, H, n, d]; k, v [1, H_kv, T, d] -> [1, H, n, d].

    The last t keys are a tree: query i sees key T - t + j if `tree_mask` [n, t] (bool) says so. Every earlier key is
    visible to every query. Without a mask the n queries are the last n keys, in causal order.
    """

    def __call__(self, q: Tensor, k: Tensor, v: Tensor, scale: float, tree_mask: Tensor | None) -> Tensor:
        """Attend."""


@dataclass(frozen=True, slots=True)
class Pass:
    """What one forward means, handed to every layer as a keyword argument of the model's call: no global state.

    Layers named in `record` leave their queries [H, rows, d] in `queries`; `record_last` keeps the last row only.
    """

    backend: Backend
    tree_mask: Tensor | None = None
    record: frozenset[int] = frozenset()
    record_last: bool = False
    queries: dict[int, Tensor] = field(default_factory=dict)


def attend(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    scaling: float | None = None,
    this_pass: Pass,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """transformers' attention signature: k and v come after RoPE and hold the whole cache, heads not repeated."""
    layer: int = module.layer_idx  # type: ignore[assignment]
    if layer in this_pass.record:
        this_pass.queries[layer] = query[0, :, -1:] if this_pass.record_last else query[0]
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    return this_pass.backend(query, key, value, scale, this_pass.tree_mask).transpose(1, 2), None


def register() -> None:
    """Make `attn_implementation="specextend"` known. It has no mask function, so no n x L mask is ever built."""
    AttentionInterface.register(NAME, attend)


def positions_mask(n: int, device: torch.device) -> Tensor:
    """Causal order as a tree mask [n, n]."""
    return torch.ones(n, n, dtype=torch.bool, device=device).tril_()
