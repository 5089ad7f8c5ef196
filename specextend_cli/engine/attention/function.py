"""The attention function that transformers calls in every layer, and the context of one forward."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, TypeAlias

import torch
from torch import Tensor, nn
from transformers import AttentionInterface

from specextend_cli.engine.attention.hybrid import through_window
from specextend_cli.engine.attention.reference import reference
from specextend_cli.engine.attention.softmax import PLAIN, SoftmaxOptions
from specextend_cli.engine.attention.windows import Block, blocks

NAME = "specextend"


class Backend(Protocol):
    """q [1, H, n, d]; k, v [1, H_kv, T, d] -> [1, H, n, d].

    The last t keys are a tree's: query i sees key T - t + j where `tree_mask` [n, t] (bool) is set, and every earlier
    key. Without a mask the n queries belong to the last n keys, in causal order.
    """

    def __call__(
        self, q: Tensor, k: Tensor, v: Tensor, scale: float, tree_mask: Tensor | None, softmax: SoftmaxOptions = PLAIN
    ) -> Tensor:
        """Attend."""


class LayerQueries(NamedTuple):
    """A layer's queries [H, rows, d] after RoPE, the scale of their products with keys, and what else it attends by.

    A query sees the newest `window` positions, its own included; None: all.
    """

    queries: Tensor
    scale: float
    window: int | None = None
    softmax: SoftmaxOptions = PLAIN


Queries: TypeAlias = dict[int, LayerQueries]
"""By layer."""


@dataclass(kw_only=True)
class ForwardContext:
    """What the layers know of one forward. It is a keyword argument of the model's call, not global state.

    Layers in `record` leave their queries in `queries`, with `record_last` those of the last token only.
    Layers with one window, and as many queries, share `blocks`.
    """

    backend: Backend | None = None
    tree_mask: Tensor | None = None
    record: Collection[int] = ()
    record_last: bool = False
    queries: Queries = field(default_factory=dict)
    blocks: dict[tuple[int, int], list[Block]] = field(default_factory=dict)

    def attend(
        self, q: Tensor, k: Tensor, v: Tensor, scale: float, window: int | None, softmax: SoftmaxOptions = PLAIN
    ) -> Tensor:
        """One layer's attention by the back end, through a window: a prompt's by torch's kernel, if there is one."""
        backend = self.backend
        assert backend is not None
        if window is None:
            return backend(q, k, v, scale, self._mask_of(q), softmax)
        is_prompt = self.tree_mask is None and q.shape[2] > 1
        if is_prompt and k.shape[2] > window and (window, q.shape[2]) not in self.blocks:
            out = None if backend is reference else through_window(q, k, v, scale, window, softmax)
            if out is not None:
                return out
        n, total = q.shape[2], k.shape[2]
        if (window, n) not in self.blocks:
            self.blocks[window, n] = blocks(n, total, window, self._mask_of(q), q.device)
        parts = [
            backend(q[:, :, rows], k[:, :, seen], v[:, :, seen], scale, mask, softmax)
            for rows, seen, mask in self.blocks[window, n]
        ]
        return parts[0] if len(parts) == 1 else torch.cat([part.transpose(1, 2) for part in parts], 1).transpose(1, 2)

    def _mask_of(self, q: Tensor) -> Tensor | None:
        """`tree_mask` of these queries, which are the last ones where a layer without keys leaves others out (Gemma 4).

        Of several sequences none is left out.
        """
        mask = self.tree_mask
        if mask is None or q.shape[0] > 1 or len(mask) == q.shape[2]:
            return mask
        return mask[-q.shape[2] :]


def attend(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    scaling: float | None = None,
    context: ForwardContext | None = None,
    sliding_window: int | None = None,
    s_aux: Tensor | None = None,
    softcap: float | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """transformers' attention signature. Keys and values come after RoPE, of the whole cache, heads not repeated.

    ValueError, which the check at load finds, where a model keeps the context to itself.
    """
    if context is None:
        raise ValueError(f"the context is not handed down to {type(module).__name__}")
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    layer: int = module.layer_idx  # type: ignore[assignment]
    softmax = PLAIN if softcap is None and s_aux is None else SoftmaxOptions(softcap, s_aux)
    if layer in context.record:
        asked = query[0, :, -1:] if context.record_last else query[0]
        context.queries[layer] = LayerQueries(asked, scale, sliding_window, softmax)
    out = context.attend(query, key, value, scale, sliding_window, softmax)
    return out.transpose(1, 2).contiguous(), None  # some models take views of it


AttentionInterface.register(NAME, attend)  # which has no mask function, so no n x L mask is ever built
