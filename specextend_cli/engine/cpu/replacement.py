"""A model's forward is replaced only by what computes the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from specextend_cli.engine.forward import ForwardBackend
from specextend_cli.engine.native import CannotCompileError

_ROUNDED, _EXACT = 0.1, 1e-3  # relative distance up to which logits count as the model's own


def install(model: Any, backend: ForwardBackend[Any], trial: Callable[[], Tensor], *, rounds: bool) -> None:
    """Let `model` run by `backend`. CannotCompileError unless the logits of a `trial` stay the same up to rounding.

    `rounds`: to less than float32.
    """
    before = trial()
    model.forward_backend = backend
    try:
        same = float((trial() - before).norm() / before.norm()) <= (_ROUNDED if rounds else _EXACT)
    except BaseException:
        model.forward_backend = None
        raise
    if not same:
        model.forward_backend = None
        raise CannotCompileError("the native forward computes something else than the model")
