"""Training-time test (EAGLE-3, arXiv 2503.01840, section 3): the head is trained on its own outputs, as it drafts.

Row i of step 0 joins the target's state at position i with token i + 1 and predicts token i + 2. Row i of step k reads,
instead of the target's state, the head's own output of step k - 1 at row i - 1; it sees the rows of step 0 up to i - k,
and of every later step m the one row i - k + m that led to it: exactly what a chain of k drafts sees.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers import DynamicCache

from specextend_cli.engine.attention import ForwardContext
from specextend_cli.engine.attention.softmax import PLAIN, SoftmaxOptions
from specextend_cli.engine.head import EagleHead


def unroll(head: EagleHead, tokens: Tensor, features: Tensor, start: int, steps: int) -> list[Tensor]:
    """The inputs of `head.lm_head` in every step, each [rows, hidden]: step k has rows start + k to the last, n - 2.

    tokens [n] with the target's features [n, layers * hidden]; gradients reach every parameter of the head that is not
    the target's. Rows before `start` make keys and values only. ValueError when a step would have no row.
    """
    rows = len(tokens) - 1
    if not 0 <= start < rows - steps + 1:
        raise ValueError(f"{steps} steps from row {start} do not fit into {rows} rows")
    cache = DynamicCache()  # the keys and values of all steps, with their gradients
    positions = torch.arange(rows, device=tokens.device)
    fused = head.fuse(features[:-1])
    if start:
        head.remember(tokens[1 : 1 + start], fused[:start], positions[:start], cache, ForwardContext(_attend))
    states, outputs = fused[start:], []
    for step in range(steps):
        first = start + step
        context = ForwardContext(_attend, tree_mask=_mask(start, rows, step, tokens.device))
        normed, states = head.advance(head.embedding(tokens[1 + first :]), states, positions[first:], cache, context)
        outputs.append(normed)
        states = states[:-1]
    return outputs


def _mask(start: int, rows: int, step: int, device: torch.device) -> Tensor:
    """Which rows of all steps so far the rows of `step` see, [rows - start - step, sum of all steps' rows]."""
    mine = torch.arange(start + step, rows, device=device)[:, None]
    blocks = [torch.arange(rows, device=device)[None] <= mine - step]
    blocks += [torch.arange(start + m, rows, device=device)[None] == mine - step + m for m in range(1, step + 1)]
    return torch.cat(blocks, 1)


def _attend(
    q: Tensor, k: Tensor, v: Tensor, scale: float, tree_mask: Tensor | None, softmax: SoftmaxOptions = PLAIN
) -> Tensor:
    """A differentiable `Backend`; key heads are repeated, as kernels with a mask require."""
    groups = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)
    return scaled_dot_product_attention(q, k, v, attn_mask=tree_mask, is_causal=tree_mask is None, scale=scale)
