"""From the host to the device. The host never waits: PyTorch's default would wait for all that the device has to do."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def upload(numbers: Sequence[int], device: torch.device) -> Tensor:
    """Integers [n] (int64) on `device`."""
    return torch.tensor(numbers, dtype=torch.long).to(device, non_blocking=True)
