"""Capturing CUDA graphs, and replaying them. A GPU has one owner of their memory, of a stream, and of whose turn it is.

What torch (2.9 to 2.13) leaves to whoever captures: where a capture is broken off, as by a host that waits in it,
`capture_end` raises before allocator and stream are told that it is over, and the allocator gives no memory back. A
pool whose graphs are all gone takes no other as long as a result lies in it. What a graph computed is there until
another one of its pool runs, by whatever thread and on whatever stream.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import Any, TypeAlias
from weakref import WeakSet

import torch

from specextend_cli.engine.transfer import check_alive

Capture: TypeAlias = Callable[[Callable[[], Any], torch.device], tuple[Any, Callable[[], None]]]
"""Takes a function; gives what it returns, and a replay that computes it again in place. Raises where it cannot."""


class CaptureFailedError(RuntimeError):
    """A capture was broken off, and no other is tried on the device in this process. The message says why."""


class _Owner:
    """The graphs of a device: all share one memory pool, so that the smaller ones need memory for results only.

    As a context it is a thread's turn, in which no other thread replays or captures: from the inputs of a replay until
    what reads its results was launched. Turns on different streams come one after the other on the device, too.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._lock = threading.RLock()
        self._last: torch.cuda.Stream | None = None  # of the last turn
        self._side: torch.cuda.Stream | None = None  # of all captures: every stream keeps a workspace of its own
        self._pool: Any = None
        self._graphs: WeakSet[torch.cuda.CUDAGraph] = WeakSet()  # in the pool
        self._failure = ""

    def __enter__(self) -> None:
        self._lock.acquire()
        here = torch.cuda.current_stream(self._device)
        if self._last is not None and here != self._last:
            here.wait_stream(self._last)
        self._last = here

    def __exit__(self, *error: object) -> None:
        self._lock.release()

    def capture(self, body: Callable[[], Any]) -> tuple[Any, Callable[[], None]]:
        """See `Capture`. RuntimeError where the host waits for the device; CaptureFailedError: it is seen too late."""
        if self._failure:
            raise CaptureFailedError(self._failure)
        with self, torch.cuda.device(self._device):
            here = torch.cuda.current_stream()
            self._side = self._side or torch.cuda.Stream()
            self._side.wait_stream(here)
            try:
                with torch.cuda.stream(self._side):
                    _rehearse(body)
                here.wait_stream(self._side)
                out, graph = self._captured(body)
            finally:  # a capture that fails may leave its stream as the current one
                torch.cuda.set_stream(here)

        def replay() -> None:
            with self:
                graph.replay()

        return out, replay

    def _captured(self, body: Callable[[], Any]) -> tuple[Any, torch.cuda.CUDAGraph]:
        if not self._graphs:
            self._pool = torch.cuda.graph_pool_handle()
        graph, side, pool = torch.cuda.CUDAGraph(), self._side, self._pool
        try:
            with torch.cuda.graph(graph, pool=pool, stream=side, capture_error_mode="thread_local"):
                out = body()
        except torch.OutOfMemoryError:
            raise
        except Exception as error:
            with suppress(RuntimeError):  # it knows
                torch._C._cuda_endAllocateToPool(self._device.index or 0, pool)
            check_alive(self._device)
            first = error.__context__ or error  # what broke it off, of which `capture_end` knows nothing
            self._failure = f"{type(first).__name__}: {first}"
            raise CaptureFailedError(self._failure) from error
        self._graphs.add(graph)
        return out, graph


def _rehearse(body: Callable[[], Any]) -> None:
    """Compile kernels and allocate workspaces, which a capture must not do. RuntimeError where the host waits."""
    body()  # what is made once may wait
    before = torch.cuda.get_sync_debug_mode()
    torch.cuda.set_sync_debug_mode("error")  # the process's: meanwhile no thread should wait for another GPU
    try:
        body()
    finally:
        torch.cuda.set_sync_debug_mode(before)


_owners: dict[torch.device, _Owner] = {}
_capturing = threading.RLock()


def _owner(device: torch.device) -> _Owner:
    return _owners.get(device) or _owners.setdefault(device, _Owner(device))


def cuda_graph(body: Callable[[], Any], device: torch.device) -> tuple[Any, Callable[[], None]]:
    """The `Capture` of CUDA."""
    return _owner(device).capture(body)


def turn(device: torch.device) -> AbstractContextManager[None]:
    """The thread's turn on a GPU, which a step of decoding takes; nothing on other devices."""
    return _owner(device) if device.type == "cuda" else nullcontext()


@contextmanager
def capturing() -> Iterator[None]:
    """While graphs are captured: by one thread of the process, and no garbage is collected.

    To free a graph while another is captured would break the capture.
    """
    with _capturing:
        was_enabled = gc.isenabled()
        gc.collect()
        gc.disable()
        try:
            yield
        finally:
            if was_enabled:
                gc.enable()
