"""The attention function that transformers calls in every layer, and the context of one forward."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

from torch import Tensor, nn
from transformers import AttentionInterface

NAME = "specextend"


class Backend(Protocol):
    """q [1, H, n, d]; k, v [1, H_kv, T, d] -> [1, H, n, d].

    The last t keys are a tree's: query i sees key T - t + j where `tree_mask` [n, t] (bool) is set, and every earlier
    key. Without a mask the n queries belong to the last n keys, in causal order.
    """

    def __call__(self, q: Tensor, k: Tensor, v: Tensor, scale: float, tree_mask: Tensor | None) -> Tensor:
        """Attend."""


Queries: TypeAlias = dict[int, tuple[Tensor, float]]
"""By layer: queries [H, rows, d] after RoPE, and the scale of their products with keys."""


@dataclass(frozen=True, slots=True)
class ForwardContext:
    """What the layers know of one forward. It is a keyword argument of the model's call, not global state.

    Layers in `record` leave their queries in `queries`, with `record_last` those of the last token only.
    """

    backend: Backend
    tree_mask: Tensor | None = None
    record: frozenset[int] = frozenset()
    record_last: bool = False
    queries: Queries = field(default_factory=dict)


class UnsupportedError(Exception):
    """A layer's attention is not the plain one. Raised while a model is probed at load, not later."""


def attend(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    scaling: float | None = None,
    context: ForwardContext | None = None,
    s_aux: Tensor | None = None,
    softcap: float | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """transformers' attention signature. Keys and values come after RoPE, of the whole cache, heads not repeated."""
    if context is None or s_aux is not None or softcap is not None:
        why = "the context was not handed down" if context is None else "attention sinks or capped logits"
        raise UnsupportedError(f"{type(module).__name__}: {why}")
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    layer: int = module.layer_idx  # type: ignore[assignment]
    if layer in context.record:
        context.queries[layer] = (query[0, :, -1:] if context.record_last else query[0], scale)
    return context.backend(query, key, value, scale, context.tree_mask).transpose(1, 2), None


def register() -> None:
    """Register `attn_implementation="specextend"`. It has no mask function, so no n x L mask is ever built."""
    AttentionInterface.register(NAME, attend)
