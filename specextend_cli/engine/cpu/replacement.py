"""A model's forward is replaced only by what computes the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from specextend_cli.engine.forward import ForwardBackend
from specextend_cli.engine.native import CannotCompileError

TOLERANCE = {torch.float32: 1e-3, torch.bfloat16: 0.1}
"""Relative distance up to which logits count as the model's own."""


def install(model: Any, backend: ForwardBackend[Any], trial: Callable[[], Tensor], dtype: torch.dtype) -> None:
    """Let `model` run by `backend`. CannotCompileError unless the logits of a `trial` stay the same up to rounding."""
    before = trial()
    model.forward_backend = backend
    try:
        same = float((trial() - before).norm() / before.norm()) <= TOLERANCE[dtype]
    except BaseException:
        model.forward_backend = None
        raise
    if not same:
        model.forward_backend = None
        raise CannotCompileError("the native forward computes something else than the model")
