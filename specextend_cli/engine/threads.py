"""Torch's number of threads while a model is checked."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

_SMALL = 500_000_000  # bytes of weights


@contextmanager
def few_threads(model: nn.Module) -> Iterator[None]:
    """During the short forwards that check a small model at load, one torch thread; the others change nothing.

    A second thread gains nothing there, and contended threads can take seconds.
    """
    before = torch.get_num_threads()
    if sum(weight.nbytes for weight in (*model.parameters(), *model.buffers())) < _SMALL:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
