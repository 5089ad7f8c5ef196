"""The peak of a stretch of work: resident memory on the host, allocated memory on a CUDA device."""

from __future__ import annotations

import resource
import sys
from pathlib import Path

import torch

_CLEAR, _STATUS = Path("/proc/self/clear_refs"), Path("/proc/self/status")


def reset(device: torch.device) -> None:
    """Begin to look for a new peak. Where the system cannot, `peak` is that of the whole process so far."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        return
    try:
        _CLEAR.write_text("5")  # Linux: the high-water mark starts again from what is resident now
    except OSError:
        return


def peak(device: torch.device) -> int:
    """Bytes at the peak since `reset`."""
    if device.type == "cuda":
        return int(torch.cuda.max_memory_allocated(device))
    try:
        line = next(line for line in _STATUS.read_text().splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) * 1024
    except (OSError, StopIteration, ValueError, IndexError):
        used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return used if sys.platform == "darwin" else used * 1024
