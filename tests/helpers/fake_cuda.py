"""torch.cuda's streams, allocator and captures without CUDA, by the rules of torch 2.9 to 2.13.

`torch.cuda.graph` is torch's own. What it calls is here, as CUDAGraph.cpp and CUDACachingAllocator.cpp have it:

- The host's waiting breaks a capture off. `capture_end` then raises before the allocator is told that it has ended.
- While the allocator serves a capture, it gives no memory back: `empty_cache` asserts.
- A pool belongs to the graphs that were captured with it. When the last one is gone it is kept as long as a result lies
  in it, and torch asserts that nobody captures with it.
"""

from __future__ import annotations

import threading
from collections import Counter
from contextlib import nullcontext
from itertools import count
from typing import Any

import pytest
import torch

DEVICE = torch.device("cuda:0")
Pool = tuple[int, int]


class Stream:
    """`waited` has those that it waits for."""

    def __init__(self, *given: object) -> None:
        self.waited: list[Stream] = []

    def wait_stream(self, other: Stream) -> None:
        self.waited.append(other)


class FakeCuda:
    """The device. `results` counts what lies in each pool, `dead` is an error that every later call repeats."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.default, self.mode, self.dead = Stream(), 0, ""
        self.underway: list[Pool] = []
        self.uses, self.results = Counter[Pool](), Counter[Pool]()
        self.began, self.replayed = 0, list[tuple[int, Stream]]()
        self._broken, self._pools, self._here = False, count(1), threading.local()
        fakes: dict[str, Any] = {
            "device": lambda device: nullcontext(),
            "Stream": Stream,
            "stream": _On,
            "current_stream": lambda device=None: getattr(self._here, "stream", self.default),
            "set_stream": lambda stream: setattr(self._here, "stream", stream),
            "synchronize": self._synchronize,
            "empty_cache": self.empty_cache,
            "graph_pool_handle": lambda: (0, next(self._pools)),
            "CUDAGraph": lambda: _Graph(self),
            "get_sync_debug_mode": lambda: self.mode,
            "set_sync_debug_mode": lambda mode: setattr(self, "mode", 2 if mode == "error" else mode),
        }
        for name, fake in fakes.items():
            monkeypatch.setattr(torch.cuda, name, fake)
        for name, missing in {"_host_emptyCache": lambda: None, "_cuda_endAllocateToPool": self._end}.items():
            monkeypatch.setattr(torch._C, name, missing, raising=False)

    def wait(self, *, is_seen: bool = True) -> None:
        """The host waits for the device: an error where that is not wanted, if it `is_seen`, and within a capture."""
        if self.underway:
            self._broken = True
            raise RuntimeError("operation not permitted when stream is capturing")
        if is_seen and self.mode:
            raise RuntimeError("called a synchronizing CUDA operation")

    def empty_cache(self) -> None:
        assert not self.underway, "captures_underway.empty() INTERNAL ASSERT FAILED"

    def _synchronize(self, device: object = None) -> None:
        if self.dead:
            raise RuntimeError(self.dead)

    def _begin(self, pool: Pool) -> None:
        if self.uses[pool] or self.results[pool]:
            assert self.uses[pool] > 0, "it->second->use_count > 0 INTERNAL ASSERT FAILED"
        self.uses[pool] += 1
        self.began += 1
        self.underway.append(pool)

    def _end(self, device: int, pool: Pool) -> None:
        if pool not in self.underway:
            raise RuntimeError("endAllocatePool: not currently recording to mempool_id")
        self.underway.remove(pool)


class _Graph:
    def __init__(self, cuda: FakeCuda) -> None:
        self.cuda, self.pool = cuda, (0, 0)

    def capture_begin(self, pool: Pool, **options: object) -> None:
        self.cuda._begin(pool)
        self.pool = pool

    def capture_end(self) -> None:
        if self.cuda._broken:
            self.cuda._broken = False
            raise torch.AcceleratorError("CUDA error: operation failed due to a previous error during capture")
        self.cuda._end(0, self.pool)

    def replay(self) -> None:
        self.cuda.replayed.append((threading.get_ident(), torch.cuda.current_stream()))  # type: ignore[arg-type]

    def __del__(self) -> None:
        self.cuda.uses[self.pool] -= 1


class _On:
    """Work of this thread goes to a stream."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        self.before = torch.cuda.current_stream()
        torch.cuda.set_stream(self.stream)

    def __exit__(self, *error: object) -> None:
        torch.cuda.set_stream(self.before)
