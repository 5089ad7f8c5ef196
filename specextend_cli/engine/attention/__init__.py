"""Attention for draft trees, registered with transformers under one name, with interchangeable back ends."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec

import torch

from specextend_cli.engine.attention.function import NAME, Backend, ForwardContext, Queries, register
from specextend_cli.engine.attention.hybrid import flash_attn, hybrid
from specextend_cli.engine.attention.reference import reference
from specextend_cli.engine.attention.split_kv import SplitKV
from specextend_cli.engine.attention.triton_tree import triton_tree

__all__ = ["BACKENDS", "NAME", "Backend", "ForwardContext", "Queries", "backend_for", "register"]

BACKENDS: dict[str, Callable[[], Backend]] = {
    "reference": lambda: reference,
    "torch": lambda: hybrid,
    "flash_attn": lambda: flash_attn,
    "split": SplitKV,
    "triton": lambda: triton_tree,  # by name only, until it is measured on a GPU
}


def backend_for(device: torch.device, name: str = "auto") -> Backend:
    """The named back end, or the fastest one for a device. ValueError for an unknown name."""
    if name == "auto":
        on_cuda = "flash_attn" if find_spec("flash_attn") else "torch"
        name = {"cuda": on_cuda, "cpu": "split"}.get(device.type, "torch")
    if name not in BACKENDS:
        raise ValueError(f"unknown attention back end {name!r}; there are: {', '.join(BACKENDS)}")
    return BACKENDS[name]()
