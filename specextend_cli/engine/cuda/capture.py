"""Capturing launches as a CUDA graph: one launch of the graph then replaces a thousand launches of kernels."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, TypeAlias

import torch

Capture: TypeAlias = Callable[[Callable[[], Any], torch.device], tuple[Any, Callable[[], None]]]
"""Takes a function; gives what it returns, and a replay that computes it again in place. Raises where it cannot."""


def cuda_graph(body: Callable[[], Any], device: torch.device) -> tuple[Any, Callable[[], None]]:
    """The `Capture` of CUDA. The first replay computes what it returned.

    All graphs share one memory pool: they run one after the other, so what one computes on the way may lie where
    another does, and two threads must not run them at once. Captured in descending order of size, the smaller ones need
    memory of their own for results only.
    """
    with torch.cuda.device(device):
        here, side = torch.cuda.current_stream(), _side_stream(device)
        side.wait_stream(here)
        try:
            with torch.cuda.stream(side):  # compiles kernels and allocates workspaces, which a capture must not do
                body()
            here.wait_stream(side)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=_pool(device), stream=side, capture_error_mode="thread_local"):
                out = body()
        finally:  # a capture that fails may leave its stream as the current one
            torch.cuda.set_stream(here)
        return out, graph.replay


@cache
def _side_stream(device: torch.device) -> torch.cuda.Stream:
    """One stream for all captures: every stream keeps a workspace of its own for good."""
    return torch.cuda.Stream(device)


@cache
def _pool(device: torch.device) -> Any:
    return torch.cuda.graph_pool_handle()


CAPTURING = threading.Lock()
"""Threads that capture wait for each other: they share a stream, memory, and whether garbage is collected."""


@contextmanager
def without_collections() -> Iterator[None]:
    """Collecting a graph while another is captured would break the capture."""
    was_enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
