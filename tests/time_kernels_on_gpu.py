"""What the tree kernel takes on a GPU, beside the time in which the same GPU could have read the keys and values once.

    python tests/time_kernels_on_gpu.py [--out FIGURES.jsonl] [--sweep]     on a CUDA device
    python tests/time_kernels_on_gpu.py --rehearse                          anywhere: tiny, in Triton's interpreter

One layer of Llama 3.1 8B (32 heads, 8 key heads, dimension 128, bfloat16). The ceiling is the bytes of K and V over the
bandwidth of a device-to-device copy measured first, in the same run, reads and writes counted. Calls go round a ring of
layers larger than the L2, as a model's do, so that no keys are found there from the call before. "graph" is time in a
replayed CUDA graph: kernels without the host; "eager" is with it. Every method is compared with `reference` first.
`--sweep` tries other plans of the Triton kernel and shows the best. Needs the engine's dependencies and triton.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))
REHEARSING = "--rehearse" in sys.argv
if REHEARSING:
    os.environ["TRITON_INTERPRET"] = "1"  # before triton is first imported

import torch
from torch import Tensor

from specextend_cli.engine.attention import backend_for
from specextend_cli.engine.attention.reference import reference
from specextend_cli.engine.attention.triton_plan import Plan, chip, plan
from specextend_cli.engine.attention.triton_scores import chunk_attention, chunk_attention_torch
from specextend_cli.engine.attention.triton_tree import attend, pack

DEVICE = torch.device("cpu" if REHEARSING else "cuda", None if REHEARSING else 0)
DTYPE = torch.float16 if REHEARSING else torch.bfloat16
HEADS, KV_HEADS, DIM = (4, 2, 64) if REHEARSING else (32, 8, 128)
LENGTHS = (96, 200) if REHEARSING else (2048, 8192, 16384, 32768)
NODES = (1, 12) if REHEARSING else (1, 60)
RING_BYTES = 1 if REHEARSING else 512 << 20  # several times any L2
ROUNDS = 1 if REHEARSING else 20
SCALE = DIM**-0.5

Call = Callable[[Tensor, Tensor], Tensor]


class Case(NamedTuple):
    """q [1, H, n, d]; ring [2, layers, H_kv, T, d]; mask [n, n]."""

    q: Tensor
    ring: Tensor
    mask: Tensor

    def layers(self) -> Iterator[tuple[Tensor, Tensor]]:
        for layer in range(self.ring.shape[1]):
            keys, values = self.ring[:, layer]
            yield keys[None], values[None]

    @property
    def nbytes(self) -> int:
        """Keys and values of one layer."""
        return self.ring[:, 0].numel() * self.ring.element_size()


def case(n: int, total: int) -> Case:
    generator = torch.Generator(DEVICE).manual_seed(n + total)
    per_layer = 2 * KV_HEADS * total * DIM * DTYPE.itemsize
    ring = torch.empty(2, max(2, -(-RING_BYTES // per_layer)), KV_HEADS, total, DIM, dtype=DTYPE, device=DEVICE)
    ring.normal_(generator=generator)
    mask = torch.eye(n, dtype=torch.bool)
    for i in range(1, n):
        mask[i] |= mask[int(torch.randint(0, i, ()))]
    q = torch.randn(1, HEADS, n, DIM, generator=generator, dtype=DTYPE, device=DEVICE)
    return Case(q, ring, mask.to(DEVICE))


def seconds(run: Callable[[], object], calls: int) -> float:
    """Median over rounds, per call; the device is idle before and after each."""
    took = []
    for _ in range(ROUNDS):
        synchronize()
        began = perf_counter()
        if REHEARSING:
            run()
            took.append(perf_counter() - began)
            continue
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        run()
        end.record()
        synchronize()
        took.append(start.elapsed_time(end) / 1e3)
    return median(took) / calls


def synchronize() -> None:
    if not REHEARSING:
        torch.cuda.synchronize()


def timed(call: Call, where: Case) -> tuple[float, float]:
    """Seconds a call in a replayed graph (nan where it cannot be captured), and eagerly."""

    def round_the_ring() -> None:
        for keys, values in where.layers():
            call(keys, values)

    round_the_ring()  # compiles, fills allocators
    eager = seconds(round_the_ring, where.ring.shape[1])
    if REHEARSING:
        return eager, eager
    try:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            round_the_ring()
    except RuntimeError as error:
        print(f"not captured: {error}", file=sys.stderr)
        return float("nan"), eager
    graph.replay()
    return seconds(graph.replay, where.ring.shape[1]), eager


def copy_bandwidth() -> float:
    """Bytes read and written a second by a large device-to-device copy."""
    size = 1 << 20 if REHEARSING else 2 << 30
    a = torch.empty(size, dtype=torch.uint8, device=DEVICE)
    b = torch.empty_like(a)
    b.copy_(a)
    return 2 * size / seconds(lambda: b.copy_(a), 1)


def kernels(here: Case) -> dict[str, Call]:
    """The tree kernel with its mask packed by every call, as a back end is called, and packed before; the others."""
    mask = None if here.q.shape[2] == 1 else here.mask
    words = None if mask is None else pack(mask)
    names = ["torch", "flash_attn"] if has_flash_attn() else ["torch"]
    calls: dict[str, Call] = {
        "triton": lambda k, v: backend_for(DEVICE, "triton")(here.q, k, v, SCALE, mask),
        "triton, mask packed": lambda k, v: attend(here.q, k, v, SCALE, words=words, tree=here.q.shape[2]),
    }
    for name in names:
        backend = backend_for(DEVICE, name)
        calls[name] = lambda k, v, backend=backend: backend(here.q, k, v, SCALE, mask)
    query = here.q[0, :, -1]
    calls["scores, triton"] = lambda k, v: chunk_attention(query, k[0], SCALE)
    calls["scores, torch"] = lambda k, v: chunk_attention_torch(query, k[0], SCALE)
    return calls


def has_flash_attn() -> bool:
    try:
        import flash_attn  # noqa: F401
    except ImportError:
        return False
    return not REHEARSING


def error(name: str, call: Call, here: Case) -> float:
    """The largest difference from attention, or chunk scores, in float32."""
    keys, values = (tensor.float() for tensor in next(here.layers()))
    out = call(*next(here.layers())).float()
    if name.startswith("scores"):
        expected = chunk_attention_torch(here.q[0, :, -1].float(), keys[0], SCALE)
    else:
        expected = reference(here.q.float(), keys, values, SCALE, here.mask)
    return float((out - expected).abs().max())


def sweep(here: Case) -> Iterator[tuple[Plan, float]]:
    """Other plans, by their time in a graph; those the compiler refuses are left out."""
    n, total = here.q.shape[2], here.ring.shape[3]
    words = None if n == 1 else pack(here.mask)
    usual = plan(HEADS // KV_HEADS * n, total, KV_HEADS, DIM, DTYPE.itemsize, chip(DEVICE))
    keys, stages, warps, ways = (32, 64, 128), (2, 3, 4), (4, 8), (0.5, 1, 2)
    if REHEARSING:
        keys, stages, warps, ways = (32, 64), (2,), (4,), (1, 2)
    rows = {usual.rows, max(16, usual.rows // 2)}
    for r, k, s, w, factor in product(rows, keys, stages, warps, ways):
        cut = Plan(r, k, max(1, min(64, int(usual.splits * factor))), w, s)
        call = lambda a, b, cut=cut: attend(here.q, a, b, SCALE, words=words, tree=n, launch=cut)  # noqa: E731
        try:
            yield cut, timed(call, here)[0]
        except Exception as refused:  # triton's own errors have no common class: too much shared memory, registers
            print(f"{cut}: {type(refused).__name__}", file=sys.stderr)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rehearse", action="store_true", help="tiny, on the CPU; its figures mean nothing")
    parser.add_argument("--sweep", action="store_true", help="also try other plans")
    parser.add_argument("--out", type=Path, help="figures as JSON lines")
    options = parser.parse_args()
    rows: list[dict[str, object]] = []
    bandwidth = copy_bandwidth()
    name = "interpreter: a rehearsal" if REHEARSING else torch.cuda.get_device_name(DEVICE)
    print(f"{name}; torch {torch.__version__}; copy {bandwidth / 1e12:.2f} TB/s, reads and writes counted")
    print("  keys nodes  method               ceiling us  graph us  of it  eager us  error")
    for total, n in product(LENGTHS, NODES):
        here = case(n, total)
        for method, call in kernels(here).items():
            wrong = error(method, call, here)
            graph, eager = timed(call, here)
            ceiling = here.nbytes / bandwidth / (2 if method.startswith("scores") else 1)  # scores read keys only
            print(
                f"{total:>6} {n:>5}  {method:<20} {ceiling * 1e6:>10.1f} {graph * 1e6:>9.1f} {ceiling / graph:>6.0%} "
                f"{eager * 1e6:>9.1f}  {wrong:.1e}",
                flush=True,
            )
            figures = {"ceiling_s": ceiling, "graph_s": graph, "eager_s": eager, "error": wrong}
            rows.append({"device": name, "keys": total, "nodes": n, "method": method, **figures})
        if options.sweep:
            for cut, graph in sorted(sweep(here), key=lambda found: found[1])[:5]:
                print(f"{total:>6} {n:>5}  {graph * 1e6:>9.1f} us  {cut}", flush=True)
                rows.append({"device": name, "keys": total, "nodes": n, "plan": cut._asdict(), "graph_s": graph})
    if options.out:
        options.out.write_text("".join(json.dumps(row) + "\n" for row in rows))


if __name__ == "__main__":
    with torch.inference_mode():
        main()
