"""Triton's kernels: their errors and their times.

`check` compares every kernel with reference attention, computed in float32 on the processor. `timings` are of the tree
kernels, beside the time needed to read the keys and values once. Its calls go round a ring of layers larger than any
cache, as in a model, so that no keys are cached from the last call. "graph": time in a replayed CUDA graph, kernels
without the host; "eager": with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from statistics import median
from typing import Any, TypeAlias

import torch
from torch import Tensor

from specextend_cli.bench.formats import Cell
from specextend_cli.engine.attention import Backend
from specextend_cli.engine.attention.flash_package import is_installed
from specextend_cli.engine.attention.reference import reference
from specextend_cli.engine.attention.triton_plan import chip, plan
from specextend_cli.engine.attention.triton_tree import Placed, attend, pack
from specextend_cli.engine.attention_backends import backend_for
from tests.helpers.attention_inputs import inputs, random_tree_mask
from tests.scripts.gpu_models import Sizes, seconds

TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 3e-2, torch.float16: 4e-3}
"""Largest difference of an output; inputs are normal, so outputs are of order one."""
RIGHT = "right"
_SCALE = 0.1
Call: TypeAlias = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Case:
    """q [1, H, n, d]; k, v [1, H_kv, prefix + n, d]; the mask [n, n] of a random tree."""

    q: Tensor
    k: Tensor
    v: Tensor
    mask: Tensor

    def attended(self, **options: Any) -> Tensor:
        """The tree kernel's output; `options` are those of `attend`."""
        return attend(self.q, self.k, self.v, _SCALE, words=pack(self.mask), tree=self.q.shape[2], **options)

    def expected(self, *, causal: bool = False) -> Tensor:
        """The reference."""
        q, k, v = (tensor.cpu().float() for tensor in (self.q, self.k, self.v))
        return reference(q, k, v, _SCALE, None if causal else self.mask.cpu())


@torch.inference_mode()
def check(sizes: Sizes) -> Iterator[dict[str, Cell]]:
    """A row of the table for each kernel in each number format."""
    for dtype in sizes.exact:
        for name, kernel in KERNELS.items():
            errors, failure = [], ""
            try:
                for d, (n, prefix) in product(sizes.head_dims, sizes.trees):
                    errors.append(kernel(random_case(sizes, dtype, d, n, prefix)))
            except Exception as error:  # triton's own have no common class; one kernel's failure is a finding
                failure = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
            largest = max(errors, default=float("nan"))
            yield {
                "kernel": name,
                "number format": str(dtype).removeprefix("torch."),
                "cases": len(errors),
                "largest difference": largest,
                "tolerated": TOLERANCE[dtype],
                "verdict": verdict(largest, TOLERANCE[dtype], failure),
            }


def verdict(error: float, tolerance: float, failure: str) -> str:
    """ "right", or how it is wrong; NaN is not right."""
    return RIGHT if not failure and error <= tolerance else f"WRONG {failure}".strip()


def random_case(sizes: Sizes, dtype: torch.dtype, d: int, n: int, prefix: int) -> Case:
    """Seeded by its shape."""
    made = *inputs(sizes.heads, sizes.kv_heads, n, prefix + n, d, dtype), random_tree_mask(n)
    return Case(*(tensor.to(sizes.device) for tensor in made))


def _difference(out: Tensor, expected: Tensor) -> float:
    """The largest difference; infinite for NaN, which a maximum would ignore."""
    difference = float((out.cpu().float() - expected).abs().max())
    return difference if difference == difference else float("inf")


def _tree(case: Case) -> float:
    return _difference(case.attended(), case.expected())


def _causal(case: Case) -> float:
    return _difference(attend(case.q, case.k, case.v, _SCALE), case.expected(causal=True))


def _split(case: Case) -> float:
    """Three splits, which few keys do not fill, and their merge."""
    _, heads, n, d = case.q.shape
    kv_heads, total = case.k.shape[1:3]
    usual = plan(heads // kv_heads * n, total, kv_heads, d, case.k.element_size(), chip(case.k.device))
    return _difference(case.attended(launch=usual._replace(splits=3)), case.expected())


def _addresses(case: Case) -> float:
    """The cache's place and the number of keys are read from the device; rows behind the keys are NaN."""
    _, kv_heads, total, d = case.k.shape
    memory = torch.full((2, 2, kv_heads, total + 40, d), torch.nan, dtype=case.k.dtype, device=case.k.device)
    memory[:, 1, :, :total] = torch.cat((case.k, case.v))
    place = torch.tensor((memory.data_ptr(), *memory.stride()[:2], 0, memory.stride(2)), device=memory.device)
    nodes = case.q.shape[2]
    sizes = torch.tensor((total, nodes), device=memory.device)
    words = pack(case.mask) if nodes > 1 else None
    out = attend(case.q, memory, memory, _SCALE, words=words, at=Placed(place, sizes, 1, kv_heads))
    return _difference(out, case.expected())


KERNELS: dict[str, Callable[[Case], float]] = {
    "tree attention": _tree,
    "causal attention": _causal,
    "shares and their merge": _split,
    "cache and length on the device": _addresses,
}


@dataclass(frozen=True)
class Ring:
    """q [1, H, n, d]; rows [2, layers, H_kv, T, d]; mask [n, n]."""

    q: Tensor
    rows: Tensor
    mask: Tensor

    @classmethod
    def create(cls, sizes: Sizes, n: int, total: int) -> Ring:
        """With the heads of `sizes`."""
        generator = torch.Generator(sizes.device).manual_seed(n + total)
        layer = 2 * sizes.kv_heads * total * sizes.head_dim * sizes.dtype.itemsize
        shape = (2, max(2, -(-sizes.ring // layer)), sizes.kv_heads, total, sizes.head_dim)
        rows = torch.empty(shape, dtype=sizes.dtype, device=sizes.device).normal_(generator=generator)
        q = torch.empty(1, sizes.heads, n, sizes.head_dim, dtype=sizes.dtype, device=sizes.device)
        return cls(q.normal_(generator=generator), rows, random_tree_mask(n).to(q.device))


@torch.inference_mode()
def timings(sizes: Sizes, bandwidth: float, total: int) -> Iterator[dict[str, Cell]]:
    """A row of the table for every method over `total` keys, for one query and for a tree."""
    for n in (1, sizes.nodes):
        ring = Ring.create(sizes, n, total)
        for method, call in methods(ring).items():
            graph, eager = timed(ring, call, sizes)
            least = ring.rows[:, 0].nbytes / bandwidth
            yield {
                "keys": total,
                "nodes": n,
                "method": method,
                "reading them (µs)": 1e6 * least,
                "in a graph (µs)": None if graph is None else 1e6 * graph,
                "eager (µs)": 1e6 * eager,
                "share of bandwidth": least / (eager if graph is None else graph),
            }


def methods(ring: Ring) -> dict[str, Call]:
    """The tree kernel with its mask packed beforehand and by every call (as a back end is called), and the others."""
    device, n, scale = ring.q.device, ring.q.shape[2], ring.q.shape[3] ** -0.5
    mask = None if n == 1 else ring.mask
    words = None if mask is None else pack(mask)

    def by_backend(backend: Backend) -> Call:
        return lambda k, v: backend(ring.q, k, v, scale, mask)

    calls: dict[str, Call] = {"triton, mask packed": lambda k, v: attend(ring.q, k, v, scale, words=words, tree=n)}
    for name in ("triton", "torch", *(["flash_attn"] if device.type == "cuda" and is_installed() else [])):
        calls[name] = by_backend(backend_for(device, name))
    return calls


def timed(ring: Ring, call: Call, sizes: Sizes) -> tuple[float | None, float]:
    """Seconds a call in a replayed graph, and eagerly."""

    layers = ring.rows.shape[1]

    def go_round() -> None:
        for layer in range(layers):
            keys, values = ring.rows[:, layer]
            call(keys[None], values[None])

    go_round()  # compiles, fills allocators
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
