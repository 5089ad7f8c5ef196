"""What this machine does at best, measured where it is needed: reading memory, and multiplying matrices."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import NamedTuple

import torch

_ROUNDS = 6
_BYTES = {"cpu": 256 << 20}  # several times a processor's cache that cores share
_BYTES_ELSEWHERE = 1 << 30
_WIDTH = {"cpu": 1536}  # of a square matrix
_WIDTH_ELSEWHERE = 8192


class Ceilings(NamedTuple):
    """Bytes a second that can be read, and floating-point operations a second, a multiply-add being two."""

    bandwidth: float
    arithmetic: float


def measure(device: torch.device, dtype: torch.dtype, *, scale: float = 1.0) -> Ceilings:
    """On every thread that torch has, or on the whole GPU. `scale` shrinks what is read and multiplied, for tests."""
    return Ceilings(
        bandwidth(device, int(_BYTES.get(device.type, _BYTES_ELSEWHERE) * scale)),
        arithmetic(device, dtype, max(int(_WIDTH.get(device.type, _WIDTH_ELSEWHERE) * scale), 16)),
    )


def bandwidth(device: torch.device, size: int) -> float:
    """By summing a buffer of `size` bytes, or copying it (read and written), whichever is faster."""
    buffer = torch.ones(max(size // 4, 1), dtype=torch.float32, device=device)
    copy = torch.empty_like(buffer)
    read = buffer.nbytes / fastest(lambda: buffer.sum(), device)
    copied = 2 * buffer.nbytes / fastest(lambda: copy.copy_(buffer), device)
    return max(read, copied)


def arithmetic(device: torch.device, dtype: torch.dtype, width: int) -> float:
    """By the product of two square matrices."""
    a = torch.ones(width, width, dtype=dtype, device=device)
    b = torch.ones(width, width, dtype=dtype, device=device)
    return 2 * width**3 / fastest(lambda: a @ b, device)


def fastest(call: Callable[[], object], device: torch.device) -> float:
    """Seconds of the best of a few calls, after one that warms up: a ceiling is what was reached at least once."""
    return min(seconds(call, device) for _ in range(_ROUNDS + 1))


def seconds(call: Callable[[], object], device: torch.device) -> float:
    """Seconds of one call; the device is idle before and after."""
    wait(device)
    began = perf_counter()
    call()
    wait(device)
    return perf_counter() - began


def wait(device: torch.device) -> None:
    """Until the device has done what it was told: calls on CUDA return before."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
