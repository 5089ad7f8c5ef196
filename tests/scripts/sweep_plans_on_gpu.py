"""Other plans of the tree kernel than its own, and the fastest of them.

    python -m tests.scripts.sweep_plans_on_gpu        needs CUDA

`tests.scripts.gpu` times the plan that is used; this looks for a better one, which takes some minutes of
compiling. The sizes are the suite's: a layer of Llama 3.1 8B.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import product

import torch
from torch import Tensor

from specextend_cli.engine.attention.triton_plan import Plan, chip, plan
from specextend_cli.engine.attention.triton_tree import attend, pack
from tests.scripts.gpu_kernels import Ring, timed
from tests.scripts.gpu_models import Sizes, sizes_for

KEYS, STAGES, WARPS, WAYS = (32, 64, 128), (2, 3, 4), (4, 8), (0.5, 1, 2)


def sweep(sizes: Sizes, ring: Ring, usual: Plan) -> Iterator[tuple[Plan, float]]:
    """Seconds a call of every plan that the compiler takes."""
    n = ring.q.shape[2]
    words = None if n == 1 else pack(ring.mask)
    for rows, keys, stages, warps, ways in product({usual.rows, max(16, usual.rows // 2)}, KEYS, STAGES, WARPS, WAYS):
        cut = Plan(rows, keys, max(1, min(64, int(usual.splits * ways))), warps, stages)

        def call(k: Tensor, v: Tensor, cut: Plan = cut) -> Tensor:
            return attend(ring.q, k, v, sizes.head_dim**-0.5, words=words, tree=n, launch=cut)

        try:
            graph, eager = timed(ring, call, sizes)
        except Exception as refused:  # triton's own errors have no common class: shared memory, registers
            print(f"{cut}: {type(refused).__name__}", file=sys.stderr)
            continue
        yield cut, eager if graph is None else graph


@torch.inference_mode()
def main() -> None:
    sizes = sizes_for(torch.device("cuda", 0))
    for total, n in product(sizes.lengths, (1, sizes.nodes)):
        rows = sizes.heads // sizes.kv_heads * n
        usual = plan(rows, total, sizes.kv_heads, sizes.head_dim, sizes.dtype.itemsize, chip(sizes.device))
        found = dict(sweep(sizes, Ring.create(sizes, n, total), usual))
        print(f"{sizes.label}, {total:,} keys, {n} nodes; used: {usual}, {1e6 * found.get(usual, 0):.1f} us")
        for cut, seconds in sorted(found.items(), key=lambda pair: pair[1])[:5]:
            print(f"{1e6 * seconds:>9.1f} us  {cut}", flush=True)


if __name__ == "__main__":
    main()
