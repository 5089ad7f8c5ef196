"""What is otherwise for a while: attributes, and torch's number of threads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

_SMALL = 500_000_000  # bytes of weights


@contextmanager
def exchanged(changes: Iterable[tuple[Any, str, Any]]) -> Iterator[None]:
    """Set attributes: objects, names and values, in this order."""
    before = []
    try:
        for owner, name, value in changes:
            before.append((owner, name, getattr(owner, name)))
            setattr(owner, name, value)
        yield
    finally:
        for owner, name, value in reversed(before):
            setattr(owner, name, value)


@contextmanager
def few_threads(model: nn.Module) -> Iterator[None]:
    """During the short forwards that check a small model at load, one torch thread; a large one keeps all.

    A second thread gains nothing there, and contended threads can take seconds.
    """
    before = torch.get_num_threads()
    if sum(weight.nbytes for weight in (*model.parameters(), *model.buffers())) < _SMALL:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
