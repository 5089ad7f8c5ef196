"""Torch's number of threads, for a while."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

_SMALL = 500_000_000  # bytes of weights


@contextmanager
def on_threads(count: int | None) -> Iterator[None]:
    """Compute with `count` torch threads; None leaves the number as it is."""
    before = torch.get_num_threads()
    if count in (None, before):
        yield
        return
    torch.set_num_threads(count or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def probing_threads(model: nn.Module) -> int | None:
    """Threads for the short forwards that check a model at load; None leaves the number as it is.

    One for a small model: a second thread gains nothing there, and contended threads can take seconds.
    """
    return 1 if sum(weight.nbytes for weight in (*model.parameters(), *model.buffers())) < _SMALL else None
