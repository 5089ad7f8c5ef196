"""A model's forward is replaced only by what computes the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from specextend_cli.engine.forward import ForwardBackend
from specextend_cli.engine.native.compiler import CannotCompileError, first_line

_ROUNDED, _EXACT = 0.1, 1e-3  # relative distance up to which logits count as the model's own


def install(model: Any, make: Callable[[], ForwardBackend[Any]], trial: Callable[[], Tensor], *, rounds: bool) -> None:
    """Let `model` run by what `make` makes of it. CannotCompileError where it cannot be made, or does not run.

    Nor may the logits [rows, vocabulary] of a `trial` change by more than rounding; `rounds`: to less than float32.
    What all logits of a row have in common does not count.
    """
    try:
        backend, before = make(), trial()
        model.forward_backend = backend
        difference = trial() - before
    except torch.OutOfMemoryError:
        model.forward_backend = None
        raise
    except (AttributeError, IndexError, RuntimeError, TypeError, ValueError) as error:  # a model of another make
        model.forward_backend = None
        raise CannotCompileError(first_line(error)) from error
    except BaseException:
        model.forward_backend = None
        raise
    distance = float(_centred(difference).norm() / _centred(before).norm())
    if not distance <= (_ROUNDED if rounds else _EXACT):
        model.forward_backend = None
        raise CannotCompileError("the native forward computes something else than the model")


def _centred(logits: Tensor) -> Tensor:
    return logits - logits.mean(-1, keepdim=True)
