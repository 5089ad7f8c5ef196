"""Hybrid tree attention (LongSpec, arXiv 2502.17421; SpecExtend, section 3): a dense prefix and a small masked tree.

Every query sees the whole prefix, which therefore needs no mask and runs on a flash kernel; only the tree's few keys
need one. Two softmaxes over disjoint keys merge exactly by their log-sum-exps:

    out = w * prefix + (1 - w) * tree,   w = sigmoid(lse_prefix - lse_tree)

Grouped queries are folded into the query axis instead of repeating keys, as the prefix has no order to keep. The flash
kernels are torch's own, cuDNN's among them; `flash_package` has others.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Literal, TypeAlias

import torch
from torch import Tensor
from torch.nn.functional import pad

from specextend_cli.engine.attention.reference import masked, reference
from specextend_cli.engine.attention.softmax import PLAIN, SoftmaxOptions

_aten = torch.ops.aten
HALVES = (torch.float16, torch.bfloat16)
Kernel: TypeAlias = Literal["cpu", "cudnn", "flash", "efficient"]
"""torch's: that for CPUs; on GPUs cuDNN's, FlashAttention-2, the memory-efficient one."""
_PIECE = 512  # tokens
_MULTIPLE = 8  # numbers, by which kernels on GPUs read heads; others are padded with zeros (OpenLLaMA 3B has 100)
_WIDEST = 256  # numbers of a head that FlashAttention takes
_ROWS = 128  # queries of a comparison
_CLOSE = 0.03
_WINDOWS = (1, 3, 150)  # of a comparison, the last of which passes where the queries begin
_failures: dict[tuple[torch.device, torch.dtype, int], str] = {}
"""Why cuDNN's attention is not used again, by device, number format and width of heads; "" where that was told."""
_SCORES = 1 << 24
"""Scores that are computed at a time where no flash kernel can: 64 MB."""


@cache
def capability(device: torch.device) -> int:
    """The major number of a GPU's compute capability, 8 of Ampere and 9 of Hopper; 0 of other devices."""
    is_gpu = device.type == "cuda" and torch.cuda.is_available()
    return torch.cuda.get_device_capability(device)[0] if is_gpu else 0


def flash(q: Tensor, k: Tensor, v: Tensor, scale: float, *, causal: bool = False) -> tuple[Tensor, Tensor]:
    """torch's flash kernels: q [1, H, n, d]; k, v [1, H_kv, T, d] -> out [1, H, n, d], log-sum-exp [1, H, n] (float32).

    cuDNN's takes heads as they are. Others get those that share a key head as rows of one; in causal order, side by
    side over a view of it.
    """
    if q.device.type != "cpu" and (spare := -q.shape[3] % _MULTIPLE):
        q, k, v = (pad(rows, (0, spare)) for rows in (q, k, v))
        out, lse = flash(q, k, v, scale, causal=causal)
        return out[..., :-spare], lse
    if (kernel := _kernel_for(q, k)) == "cudnn":
        try:
            return _cudnn(q, k, v, scale, causal)
        except torch.OutOfMemoryError:
            raise
        except RuntimeError as error:  # it may refuse a size, though it is right at the one that was compared
            _failures[q.device, q.dtype, q.shape[3]] = str(error)
        kernel = "flash"
    if causal:
        groups = q.shape[1] // k.shape[1]
        k, v = (rows.transpose(0, 1).expand(-1, groups, -1, -1) for rows in (k, v))
    folded = q.reshape(*k.shape[:2], -1, q.shape[3])
    if kernel == "cpu":
        out, lse = _aten._scaled_dot_product_flash_attention_for_cpu(folded, k, v, 0.0, causal, scale=scale)
    elif kernel == "flash":
        out, lse, *_ = _aten._scaled_dot_product_flash_attention(folded, k, v, 0.0, causal, False, scale=scale)
    else:
        attend = _aten._scaled_dot_product_efficient_attention
        out, lse, *_ = attend(folded, k, v, None, True, 0.0, causal, scale=scale)
        lse = lse[..., : folded.shape[2]]  # it is padded to 32 rows
    return out.reshape(q.shape), lse.reshape(q.shape[:3]).float()


def take_failure() -> str:
    """Why cuDNN's attention reads no more prompts, told once; "" if it did not fail since."""
    why = next(filter(None, _failures.values()), "")
    _failures.update(dict.fromkeys(_failures, ""))
    return why


def _cudnn(q: Tensor, k: Tensor, v: Tensor, scale: float, causal: bool) -> tuple[Tensor, Tensor]:
    out, lse, *_ = _aten._scaled_dot_product_cudnn_attention(q, k, v, None, True, 0.0, causal, False, scale=scale)
    return out, lse.reshape(q.shape[:3]).float()


def _kernel_for(q: Tensor, k: Tensor) -> Kernel:
    """The best one for such queries and keys. FlashAttention needs Ampere, and has neither float32 nor wider heads.

    On Hopper and later cuDNN's is twice as fast as torch's, by the H100. It prepares itself anew for every size, in
    milliseconds, so it is used for whole pieces of a prompt only.
    """
    if q.device.type == "cpu":
        return "cpu"
    if q.dtype not in HALVES:
        return "efficient"
    n, total, d = q.shape[2], k.shape[2], q.shape[3]
    whole = n >= _PIECE and n % _PIECE == 0 and total % _PIECE == 0
    heads = q.device, q.dtype, d
    if whole and d <= 128 and d % 8 == 0 and heads not in _failures and _has_cudnn(*heads):
        return "cudnn"
    return "flash" if d <= _WIDEST and capability(q.device) >= 8 else "efficient"


@cache
def _has_cudnn(device: torch.device, dtype: torch.dtype, d: int) -> bool:
    """Whether cuDNN's attention is there for such heads, and computes them as it should."""
    if capability(device) < 9 or not torch.backends.cudnn.is_available():
        return False
    return all(is_attention(_cudnn, device, dtype, d, causal=causal, before=0) for causal in (False, True))


def through_window(
    q: Tensor, k: Tensor, v: Tensor, scale: float, window: int, softmax: SoftmaxOptions
) -> Tensor | None:
    """Attention of a prompt's queries, the last of all keys, each to the newest `window`, its own included.

    By torch's FlashAttention-2, in half precision from Ampere on: cuDNN's has no windows. None where it cannot, as for
    capped scores.
    """
    fits = softmax.softcap is None and q.is_cuda and q.dtype in HALVES and capability(q.device) >= 8
    heads = q.device, q.dtype, q.shape[3]
    if not fits or not all(is_attention(_windowed, *heads, causal=True, window=size) for size in _WINDOWS):
        return None
    return softmax.join(*_windowed(q, k, v, scale, causal=True, window=window))[0]


def _windowed(q: Tensor, k: Tensor, v: Tensor, scale: float, *, causal: bool, window: int) -> tuple[Tensor, Tensor]:
    """Of queries that are the last of the keys: output [1, H, n, d] and log-sum-exps [1, H, n]."""
    rows_first = (tensor.transpose(1, 2) for tensor in (q, k, v))
    sizes = {"window_size_left": window - 1, "window_size_right": 0}  # keys before a query's own, and after it
    attend = _aten._flash_attention_forward
    out, lse, *_ = attend(*rows_first, None, None, q.shape[2], k.shape[2], 0.0, causal, False, scale=scale, **sizes)
    return out.transpose(1, 2), lse


@cache
def is_attention(
    attend: Callable[..., tuple[Tensor, Tensor]],
    device: torch.device,
    dtype: torch.dtype,
    head_dim: int,
    *,
    causal: bool,
    before: int = _ROWS,
    **window: int,
) -> bool:
    """Whether `attend` (q, k, v, scale, causal and perhaps a `window`) gives what `masked` does; computed once.

    `before`: keys before the queries' own.
    """
    total = before + _ROWS
    q, k, v = (
        _waves((1, heads, rows, head_dim), step, device).to(dtype)
        for heads, rows, step in ((4, _ROWS, 0.7), (2, total, 1.1), (2, total, 1.9))
    )
    mask = torch.ones(_ROWS, total, dtype=torch.bool, device=device)
    if causal:
        mask.tril_(before)
    for size in window.values():
        mask.triu_(before - size + 1)
    expected, sums = masked(q, k, v, 0.1, mask)
    try:
        out, lse = attend(q, k, v, 0.1, causal=causal, **window)
    except Exception:  # what it does not take, each says in its own way
        return False
    if out.shape != expected.shape or lse.shape != sums.shape:
        return False
    return torch.allclose(out.float(), expected, atol=_CLOSE) and torch.allclose(lse, sums, atol=_CLOSE)


def _waves(shape: tuple[int, ...], step: float, device: torch.device) -> Tensor:
    """Numbers between -1 and 1, the same everywhere."""
    return torch.arange(torch.Size(shape).numel(), dtype=torch.float32, device=device).mul_(step).sin_().reshape(shape)


def hybrid(
    q: Tensor, k: Tensor, v: Tensor, scale: float, tree_mask: Tensor | None, softmax: SoftmaxOptions = PLAIN
) -> Tensor:
    """See `Backend`. Never materializes anything of size n x T."""
    n, total = q.shape[2], k.shape[2]
    if softmax.softcap is not None:
        return _in_blocks(q, k, v, scale, tree_mask, softmax)
    if n == 1 and (tree_mask is None or tree_mask.shape[1] == 1):
        return softmax.join(*flash(q, k, v, scale))[0]  # plain decoding: the one query sees every key
    prefix = total - (n if tree_mask is None else tree_mask.shape[1])
    k_tree, v_tree = k[:, :, prefix:], v[:, :, prefix:]
    if tree_mask is None:
        out, lse = flash(q, k_tree, v_tree, scale, causal=True)
    else:
        out, lse = masked(q, k_tree, v_tree, scale, tree_mask)
    out, lse = softmax.join(out, lse)
    if prefix == 0:
        return out.to(q.dtype)
    return merge(*flash(q, k[:, :, :prefix], v[:, :, :prefix], scale), out, lse).to(q.dtype)


def merge(a: Tensor, lse_a: Tensor, b: Tensor, lse_b: Tensor) -> Tensor:
    """Attention over the union of two disjoint key sets, from the outputs [.., n, d] and log-sum-exps [.., n]."""
    return torch.lerp(b.float(), a.float(), torch.sigmoid(lse_a - lse_b)[..., None])


def _in_blocks(
    q: Tensor, k: Tensor, v: Tensor, scale: float, tree_mask: Tensor | None, softmax: SoftmaxOptions
) -> Tensor:
    """All scores explicitly, of a block of queries at a time."""
    n, total = q.shape[2], k.shape[2]
    most, out = max(_SCORES // (q.shape[1] * total), 1), []
    for start in range(0, n, most):
        end = min(start + most, n)
        seen = total if tree_mask is not None else total - n + end
        mask = None if tree_mask is None else tree_mask[start:end]
        out.append(reference(q[:, :, start:end], k[:, :, :seen], v[:, :, :seen], scale, mask, softmax))
    return torch.cat(out, 2)
