"""Training-time test (EAGLE-3, arXiv 2503.01840, section 3): the head learns on its own output, as it will draft.

Row i of step 0 joins the target's state at position i with token i + 1 and predicts token i + 2. Row i of step k reads,
instead of the target's state, the head's own output of step k - 1 at row i - 1; it sees the rows of step 0 up to i - k,
and of every later step m the one row i - k + m that led to it: exactly what a chain of k drafts sees.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers import Cache
from transformers.cache_utils import CacheLayerMixin

from specextend_cli.engine.attention import ForwardContext
from specextend_cli.engine.head import EagleHead


def unroll(head: EagleHead, tokens: Tensor, features: Tensor, start: int, steps: int) -> list[Tensor]:
    """What `head.lm_head` reads in every step, each [rows, hidden]: step k has rows start + k to the last, n - 2.

    tokens [n] with the target's features [n, layers * hidden]; gradients reach every parameter of the head that is not
    the target's. Rows before `start` make keys and values only. ValueError when a step would have no row.
    """
    rows = len(tokens) - 1
    if not 0 <= start < rows - steps + 1:
        raise ValueError(f"{steps} steps from row {start} do not fit into {rows} rows")
    cache = _Kept(head.config.layers)
    positions = torch.arange(rows, device=tokens.device)
    fused = head.fuse(features[:-1])
    if start:
        head.remember(tokens[1 : 1 + start], fused[:start], positions[:start], cache, ForwardContext(_attend))
    states, outputs = fused[start:], []
    for step in range(steps):
        first = start + step
        this_pass = ForwardContext(_attend, tree_mask=_mask(start, rows, step, tokens.device))
        normed, states = head.advance(head.embedding(tokens[1 + first :]), states, positions[first:], cache, this_pass)
        outputs.append(normed)
        states = states[:-1]
    return outputs


def _mask(start: int, rows: int, step: int, device: torch.device) -> Tensor:
    """Which of all rows so far the rows of `step` see, [rows - start - step, sum of all steps' rows]."""
    mine = torch.arange(start + step, rows, device=device)[:, None]
    blocks = [torch.arange(rows, device=device)[None] <= mine - step]
    blocks += [torch.arange(start + m, rows, device=device)[None] == mine - step + m for m in range(1, step + 1)]
    return torch.cat(blocks, 1)


class _Kept(Cache):
    """Keys and values of all steps side by side, with their gradients."""

    def __init__(self, layers: int) -> None:
        super().__init__(layers=[_KeptLayer() for _ in range(layers)])


class _KeptLayer(CacheLayerMixin):
    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.is_initialized = True
        self.kept: tuple[Tensor, Tensor] | None = None

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        """Nothing to do."""

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """Append; return all."""
        if self.kept is not None:
            key_states, value_states = (
                torch.cat((old, new), 2) for old, new in zip(self.kept, (key_states, value_states), strict=True)
            )
        self.kept = key_states, value_states
        return self.kept

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Keys so far, and their offset."""
        return self.get_seq_length() + query_length, 0

    def get_seq_length(self) -> int:
        """Keys so far."""
        return 0 if self.kept is None else self.kept[0].shape[2]

    def get_max_length(self) -> int:
        """No maximum."""
        return -1


def _attend(q: Tensor, k: Tensor, v: Tensor, scale: float, tree_mask: Tensor | None) -> Tensor:
    """See `Backend`. Differentiable; heads are repeated, because kernels that take a mask want them so."""
    groups = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)
    return scaled_dot_product_attention(q, k, v, attn_mask=tree_mask, is_causal=tree_mask is None, scale=scale)
