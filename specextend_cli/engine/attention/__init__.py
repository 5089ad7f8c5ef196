"""Attention for draft trees, registered with transformers under one name, with interchangeable back ends."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec

import torch

from specextend_cli.engine.attention.function import NAME, Backend, ForwardContext, Queries, register
from specextend_cli.engine.attention.hybrid import flash_attn, has_flash_attn, hybrid
from specextend_cli.engine.attention.reference import reference
from specextend_cli.engine.attention.split_kv import SplitKV
from specextend_cli.engine.attention.triton_tree import triton_tree

__all__ = ["BACKENDS", "NAME", "Backend", "ForwardContext", "Queries", "backend_for", "preferred", "register"]

BACKENDS: dict[str, Callable[[], Backend]] = {  # the names of `config.Attention`
    "reference": lambda: reference,
    "torch": lambda: hybrid,
    "flash_attn": lambda: flash_attn,
    "split": SplitKV,
    "triton": lambda: triton_tree,
}


def preferred(device: torch.device, name: str = "auto") -> tuple[str, ...]:
    """The back ends to try on a device, the best first; only the named one if there is a name. ValueError: unknown.

    On CUDA that is Triton's, which CUDA graphs need; it reads prompts by flash-attn where that is installed.
    """
    if name == "auto":
        has = {"triton": find_spec("triton") is not None, "flash_attn": has_flash_attn(), "torch": True}
        on_cuda = tuple(package for package, is_here in has.items() if is_here)
        return {"cuda": on_cuda, "cpu": ("split",)}.get(device.type, ("torch",))
    if name not in BACKENDS:
        raise ValueError(f"unknown attention back end {name!r}; there are: {', '.join(BACKENDS)}")
    return (name,)


def backend_for(device: torch.device, name: str = "auto") -> Backend:
    """The named back end, or the one to try first on a device. ValueError for an unknown name."""
    return BACKENDS[preferred(device, name)[0]]()
