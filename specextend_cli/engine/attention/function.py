"""The function transformers calls in every attention layer, and what one forward means to it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

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


Queries: TypeAlias = dict[int, tuple[Tensor, float]]
"""By layer: queries [H, rows, d] after RoPE, and the scale of their products with keys."""


@dataclass(frozen=True, slots=True)
class ForwardContext:
    """What one forward means, handed to every layer as a keyword argument of the model's call: no global state.

    Layers named in `record` leave their queries in `queries`; `record_last` keeps those of the last token only.
    """

    backend: Backend
    tree_mask: Tensor | None = None
    record: frozenset[int] = frozenset()
    record_last: bool = False
    queries: Queries = field(default_factory=dict)


class UnsupportedError(Exception):
    """A layer asks for attention that is not the plain one. Seen when a model is probed at load, not later."""


def attend(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    scaling: float | None = None,
    this_pass: ForwardContext | None = None,
    s_aux: Tensor | None = None,
    softcap: float | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """transformers' attention signature: k and v come after RoPE and hold the whole cache, heads not repeated."""
    if this_pass is None or s_aux is not None or softcap is not None:
        why = "the pass was not handed down" if this_pass is None else "attention sinks or capped logits"
        raise UnsupportedError(f"{type(module).__name__}: {why}")
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    layer: int = module.layer_idx  # type: ignore[assignment]
    if layer in this_pass.record:
        this_pass.queries[layer] = (query[0, :, -1:] if this_pass.record_last else query[0], scale)
    return this_pass.backend(query, key, value, scale, this_pass.tree_mask).transpose(1, 2), None


def register() -> None:
    """Make `attn_implementation="specextend"` known. It has no mask function, so no n x L mask is ever built."""
    AttentionInterface.register(NAME, attend)
