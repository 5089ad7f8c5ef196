"""Times of the tree kernels, beside the time needed to read the keys and values once.

Calls go round a ring of layers larger than any cache, as in a model, so that no keys are cached from the last call.
"graph": time in a replayed CUDA graph, kernels without the host; "eager": with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from statistics import median
from typing import TypeAlias

import torch
from torch import Tensor

from specextend_cli.bench.roofline import seconds
from specextend_cli.bench.suite.device_info import Sizes
from specextend_cli.bench.suite.kernels import tree_mask
from specextend_cli.engine.attention import Backend, backend_for
from specextend_cli.engine.attention.triton_scores import chunk_attention, chunk_attention_torch
from specextend_cli.engine.attention.triton_tree import attend, pack

Call: TypeAlias = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Ring:
    """q [1, H, n, d]; rows [2, layers, H_kv, T, d]; mask [n, n]."""

    q: Tensor
    rows: Tensor
    mask: Tensor

    @classmethod
    def made(cls, sizes: Sizes, n: int, total: int) -> Ring:
        """With the heads of `sizes`."""
        generator = torch.Generator(sizes.device).manual_seed(n + total)
        layer = 2 * sizes.kv_heads * total * sizes.head_dim * sizes.dtype.itemsize
        shape = (2, max(2, -(-sizes.ring // layer)), sizes.kv_heads, total, sizes.head_dim)
        rows = torch.empty(shape, dtype=sizes.dtype, device=sizes.device).normal_(generator=generator)
        q = torch.empty(1, sizes.heads, n, sizes.head_dim, dtype=sizes.dtype, device=sizes.device)
        return cls(q.normal_(generator=generator), rows, tree_mask(n, torch.Generator().manual_seed(n)).to(q.device))

    def go_round(self, call: Call) -> None:
        """Every layer once."""
        for layer in range(self.rows.shape[1]):
            keys, values = self.rows[:, layer]
            call(keys[None], values[None])

    @property
    def nbytes(self) -> int:
        """Keys and values of one layer."""
        return self.rows[:, 0].nbytes


@dataclass(frozen=True)
class Timed:
    """Seconds a call; `least` reads keys and values once, `graph` is None if nothing could be captured."""

    keys: int
    nodes: int
    method: str
    least: float
    graph: float | None
    eager: float


@torch.inference_mode()
def timings(sizes: Sizes, bandwidth: float, total: int) -> Iterator[Timed]:
    """Every method over `total` keys, for one query and for a tree."""
    for n in (1, sizes.nodes):
        ring = Ring.made(sizes, n, total)
        for method, call in methods(ring).items():
            graph, eager = timed(ring, call, sizes)
            # Scores read keys only.
            least = ring.nbytes / bandwidth / (2 if method.startswith("scores") else 1)
            yield Timed(total, n, method, least, graph, eager)


def methods(ring: Ring) -> dict[str, Call]:
    """The tree kernel with its mask packed beforehand and by every call (as a back end is called), and the others."""
    device, n, scale = ring.q.device, ring.q.shape[2], ring.q.shape[3] ** -0.5
    mask = None if n == 1 else ring.mask
    words = None if mask is None else pack(mask)
    query = ring.q[0, :, -1]
    calls: dict[str, Call] = {"triton, mask packed": lambda k, v: attend(ring.q, k, v, scale, words=words, tree=n)}
    for name in ("triton", "torch", *(["flash_attn"] if device.type == "cuda" and find_spec("flash_attn") else [])):
        calls[name] = partial(_by_backend, backend_for(device, name), ring.q, scale, mask)
    calls["scores, triton"] = lambda k, v: chunk_attention(query, k[0], scale)
    calls["scores, torch"] = lambda k, v: chunk_attention_torch(query, k[0], scale)
    return calls


def _by_backend(backend: Backend, q: Tensor, scale: float, mask: Tensor | None, k: Tensor, v: Tensor) -> Tensor:
    return backend(q, k, v, scale, mask)


def timed(ring: Ring, call: Call, sizes: Sizes) -> tuple[float | None, float]:
    """Seconds a call in a replayed graph, and eagerly."""

    def go_round() -> None:
        ring.go_round(call)

    go_round()  # compiles, fills allocators
    layers = ring.rows.shape[1]
    eager = median(seconds(go_round, sizes.device) for _ in range(sizes.rounds)) / layers
    if not sizes.is_gpu:
        return None, eager
    try:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            go_round()
    except RuntimeError:
        return None, eager
    graph.replay()
    return median(seconds(graph.replay, sizes.device) for _ in range(sizes.rounds)) / layers, eager
