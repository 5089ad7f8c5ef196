"""torch's own flash kernels, each with its log-sum-exp, behind one signature."""

from __future__ import annotations

import torch
from torch import Tensor

_aten = torch.ops.aten


def flash(
    q: Tensor, k: Tensor, v: Tensor, scale: float, *, causal: bool = False, mask: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """q [b, h, m, d]; k, v [b, h, T, d] -> out [b, h, m, d], natural-log log-sum-exp [b, h, m] (float32).

    `mask` is added to the scores, [b, 1 or h, m, T]; on processors alone.
    """
    if q.device.type == "cpu":
        out, lse = _aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, causal, attn_mask=mask, scale=scale)
    elif q.dtype in (torch.float16, torch.bfloat16):
        out, lse, *_ = _aten._scaled_dot_product_flash_attention(q, k, v, 0.0, causal, False, scale=scale)
    else:
        # The CUDA flash kernel has no float32; the memory-efficient one pads its log-sum-exp to 32 rows.
        out, lse, *_ = _aten._scaled_dot_product_efficient_attention(q, k, v, None, True, 0.0, causal, scale=scale)
        lse = lse[..., : q.shape[2]]
    return out, lse.float()
