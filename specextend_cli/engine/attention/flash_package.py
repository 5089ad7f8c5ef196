"""FlashAttention by the package flash-attn, where it is installed: on Ampere and Ada it is the fastest for prompts.

On Hopper and later cuDNN's kernel is nearly twice as fast (679 against 353 TFLOP/s on an H100). Its function is
compared with attention in plain products before it is used. flash-attn-4 is imported as `flash_attn`, too, so the
distribution is asked.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version

import torch
from torch import Tensor

from specextend_cli.engine.attention.hybrid import HALVES, capability, hybrid, is_attention
from specextend_cli.engine.attention.softmax import PLAIN, SoftmaxOptions

_PACKAGE, _MODULE = "flash-attn", "flash_attn"


@cache
def is_installed() -> bool:
    """Whether the package can be imported."""
    try:
        version(_PACKAGE)
        return hasattr(import_module(_MODULE), "flash_attn_func")
    except PackageNotFoundError:
        return False
    except Exception:  # it was compiled for another torch, or asks for other versions than there are
        return False


def is_best_for_prompts(device: torch.device) -> bool:
    """Whether it reads prompts faster on this device than torch's kernels do."""
    return device.type == "cuda" and is_installed() and capability(device) < 9


def reads_prompts(q: Tensor) -> bool:
    """Whether it is the best back end for such queries of a prompt, and computes them as it should."""
    return is_best_for_prompts(q.device) and _takes(q)


def _takes(q: Tensor) -> bool:
    heads = q.device, q.dtype, q.shape[3]
    return q.is_cuda and q.dtype in HALVES and is_attention(_attend, *heads, causal=True)


def flash_attn(
    q: Tensor, k: Tensor, v: Tensor, scale: float, tree_mask: Tensor | None, softmax: SoftmaxOptions = PLAIN
) -> Tensor:
    """See `Backend`. Prompts in half precision on CUDA, of heads that the package computes; others go to `hybrid`."""
    if tree_mask is not None or not softmax.is_plain or not _takes(q):
        return hybrid(q, k, v, scale, tree_mask, softmax)
    return _attend(q, k, v, scale, causal=True)[0]  # aligned to the last keys: a chunk over its prefix and itself


def _attend(q: Tensor, k: Tensor, v: Tensor, scale: float, *, causal: bool) -> tuple[Tensor, Tensor]:
    """Output and log-sum-exps; a causal mask ends with the last key."""
    function = import_module(_MODULE).flash_attn_func
    rows_first = (tensor.transpose(1, 2) for tensor in (q, k, v))
    out, lse, *_ = function(*rows_first, softmax_scale=scale, causal=causal, return_attn_probs=True)
    return out.transpose(1, 2), lse
