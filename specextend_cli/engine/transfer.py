"""Numbers on their way: uploads that nobody waits for, downloads that are waited for later, and large pages.

PyTorch's default would let the host wait for all that the device has to do. A step reads all weights and keys, and
looking up pages of 4 KiB costs up to a third of it.
"""

from __future__ import annotations

import ctypes
import mmap
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import torch
from torch import Tensor

from specextend_cli.errors import DeviceError

_LARGE = 2 << 20  # bytes, on x86-64 and ARM


def upload(numbers: Sequence[int], device: torch.device) -> Tensor:
    """Integers [n] (int64) on `device`."""
    return torch.tensor(numbers, dtype=torch.long).to(device, non_blocking=True)


def check_alive(device: torch.device) -> None:
    """After an error: DeviceError where every later call in this process fails as well, whatever is tried."""
    if device.type == "cuda":
        try:
            torch.cuda.synchronize(device)
        except RuntimeError as error:
            raise DeviceError(str(error)) from error


Events = TypeVar("Events")
Options = ParamSpec("Options")


def tells_dead_devices(decode: Callable[Options, Iterator[Events]]) -> Callable[Options, Iterator[Events]]:
    """Let a generator, whose first argument is a target or its model, raise DeviceError where that is the cause."""

    @wraps(decode)
    def telling(*given: Options.args, **named: Options.kwargs) -> Iterator[Events]:
        try:
            yield from decode(*given, **named)
        except torch.OutOfMemoryError:
            raise
        except RuntimeError:
            model: Any = getattr(given[0], "lm", given[0])
            check_alive(model.device)
            raise

    return telling


class Download:
    """Integers on their way from `numbers`, behind what was launched until now.

    Read without it, they would come behind what is launched in the meantime as well.
    """

    def __init__(self, numbers: Tensor) -> None:
        self._numbers, self._arrived = numbers, None
        if numbers.device.type == "cuda":
            self._numbers = numbers.to("cpu", non_blocking=True)
            self._arrived = torch.cuda.current_stream(numbers.device).record_event()

    def tolist(self) -> list[int]:
        """Wait for them."""
        if self._arrived is not None:
            self._arrived.synchronize()
        numbers: list[int] = self._numbers.tolist()
        return numbers


def in_large_pages(tensor: Tensor) -> Tensor:
    """The tensor, whose memory Linux is asked to lay in large pages where it is first written after this.

    Elsewhere, on other devices, and where the system does not do it, nothing changes.
    """
    if sys.platform == "linux" and tensor.device.type == "cpu":
        start = -(-tensor.data_ptr() // _LARGE) * _LARGE
        length = (tensor.data_ptr() + tensor.nbytes) // _LARGE * _LARGE - start
        if length > 0:
            with suppress(AttributeError):
                ctypes.CDLL(None).madvise(ctypes.c_void_p(start), ctypes.c_size_t(length), mmap.MADV_HUGEPAGE)
    return tensor
