"""FlashAttention by its packages: flash-attn, compiled when it is installed, and flash-attn-4, compiled as it runs.

Both are imported as `flash_attn`, and have other functions there; so the distribution says which one is installed. A
function is compared with attention in plain products before it is used.

Of itself, only flash-attn is chosen, on Ampere and Ada. On Hopper and later cuDNN's kernel is nearly twice as fast as
FlashAttention-2 (679 against 353 TFLOP/s on an H100), and flash-attn-4 is a beta that was not measured. It is called
directly: `torch.nn.attention.activate_flash_attention_impl` would replace torch's kernel for the whole process.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any, NamedTuple

import torch
from torch import Tensor

from specextend_cli.engine.attention.function import reading_windows
from specextend_cli.engine.attention.hybrid import (
    HALVES,
    attends_through_windows,
    hybrid,
    is_attention,
    is_hopper_or_later,
    masked,
    merge,
)
from specextend_cli.engine.attention.hybrid import through_window as torch_through_window
from specextend_cli.engine.attention.softmax import PLAIN, SoftmaxOptions


class FlashPackage(NamedTuple):
    """`flash_attn_func` of `module` returns log-sum-exps where its argument `with_lse` is true."""

    distribution: str
    module: str
    with_lse: str


FLASH_ATTN = FlashPackage("flash-attn", "flash_attn", "return_attn_probs")
FLASH_ATTN_4 = FlashPackage("flash-attn-4", "flash_attn.cute", "return_lse")


@cache
def installed() -> tuple[FlashPackage, ...]:
    """Those that can be imported."""
    return tuple(package for package in (FLASH_ATTN, FLASH_ATTN_4) if _function(package) is not None)


def is_best_for_prompts(device: torch.device) -> bool:
    """Whether a package reads prompts faster on this device than torch's kernels do, by what is known of them."""
    return device.type == "cuda" and FLASH_ATTN in installed() and not is_hopper_or_later(device)


def reads_prompts(q: Tensor) -> bool:
    """Whether `flash_attn` is the best back end for such queries of a prompt, and computes them as it should."""
    fits = q.is_cuda and q.dtype in HALVES and is_best_for_prompts(q.device)
    return fits and checked_package(q.device, q.dtype, q.shape[3]) is not None


@cache
def checked_package(device: torch.device, dtype: torch.dtype, head_dim: int) -> FlashPackage | None:
    """The package for such heads on this device: the newest on Hopper and later; None where none computes them."""
    packages = reversed(installed()) if is_hopper_or_later(device) else installed()
    return next((package for package in packages if _is_right(package, device, dtype, head_dim)), None)


@cache
def checked_windows(device: torch.device, dtype: torch.dtype, head_dim: int) -> FlashPackage | None:
    """That package, if it attends through windows, too: flash-attn before 2.3 does not."""
    package = checked_package(device, dtype, head_dim)
    return package if package and attends_through_windows(partial(_attend, package), device, dtype, head_dim) else None


def through_window(
    q: Tensor, k: Tensor, v: Tensor, scale: float, window: int, softmax: SoftmaxOptions
) -> Tensor | None:
    """See `ReadsWindows`. By a package that has windows; anything else is left to torch's kernel."""
    fits = softmax.softcap is None and q.is_cuda and q.dtype in HALVES
    package = checked_windows(q.device, q.dtype, q.shape[3]) if fits else None
    if package is None:
        return torch_through_window(q, k, v, scale, window, softmax)
    return softmax.join(*_attend(package, q, k, v, scale, causal=True, window=window))[0]


@reading_windows(through_window)
def flash_attn(
    q: Tensor, k: Tensor, v: Tensor, scale: float, tree_mask: Tensor | None, softmax: SoftmaxOptions = PLAIN
) -> Tensor:
    """See `Backend`. By a package, in half precision on CUDA; anything else goes to `hybrid`.

    RuntimeError where no package computes such heads.
    """
    if not softmax.is_plain or not q.is_cuda or q.dtype not in HALVES:
        return hybrid(q, k, v, scale, tree_mask, softmax)
    package = checked_package(q.device, q.dtype, q.shape[3])
    if package is None:
        names = " and ".join(package.distribution for package in installed()) or "flash-attn"
        raise RuntimeError(f"{names} cannot be used for heads of {q.shape[3]} dimensions in {q.dtype} on this device")
    if tree_mask is None:
        # Aligned to the last keys: a chunk over its prefix and itself.
        return _attend(package, q, k, v, scale, causal=True)[0]
    prefix = k.shape[2] - tree_mask.shape[1]
    out, lse = masked(q, k[:, :, prefix:], v[:, :, prefix:], scale, tree_mask)
    if prefix == 0:
        return out.to(q.dtype)
    dense, dense_lse = _attend(package, q, k[:, :, :prefix], v[:, :, :prefix], scale, causal=False)
    return merge(dense, dense_lse, out, lse).to(q.dtype)


def _function(package: FlashPackage) -> Callable[..., Any] | None:
    try:
        version(package.distribution)
        function: Callable[..., Any] | None = getattr(import_module(package.module), "flash_attn_func", None)
    except PackageNotFoundError:
        return None
    except Exception:  # it was compiled for another torch, or asks for other versions than there are
        return None
    return function


def _attend(
    package: FlashPackage, q: Tensor, k: Tensor, v: Tensor, scale: float, *, causal: bool, window: int | None = None
) -> tuple[Tensor, Tensor]:
    """Output and log-sum-exps; a causal mask, and a window, end with the last key."""
    sizes = {} if window is None else {"window_size": (window - 1, 0)}  # keys before a query's own, and after it
    function = import_module(package.module).flash_attn_func
    rows_first = (tensor.transpose(1, 2) for tensor in (q, k, v))
    out, lse, *_ = function(*rows_first, softmax_scale=scale, causal=causal, **{package.with_lse: True}, **sizes)
    return out.transpose(1, 2), lse


def _is_right(package: FlashPackage, device: torch.device, dtype: torch.dtype, head_dim: int) -> bool:
    """Whether it gives what attention is, for a prompt's piece behind a prefix, and for a prefix alone."""
    attend = partial(_attend, package)
    return all(is_attention(attend, device, dtype, head_dim, causal=causal) for causal in (True, False))
