"""The Triton kernels on a GPU, compared with `reference`."""

from __future__ import annotations

from itertools import product

import pytest
import torch

from specextend_cli.engine.cuda.capture import cuda_graph
from tests.helpers.graph_identity import check_identity
from tests.helpers.triton_attention import HEADS, check, check_options, check_placed, check_sequences, check_windows
from tests.helpers.triton_marks import INTERPRETING, TRITON

needs_triton = pytest.mark.skipif(TRITON < (3, 2) or INTERPRETING, reason="needs triton, not its interpreter")


@pytest.mark.gpu
@needs_triton
@pytest.mark.parametrize("d", [64, 96, 128])
@pytest.mark.parametrize(("heads", "kv_heads"), [*HEADS, (32, 8)])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_on_cuda(heads: int, kv_heads: int, d: int, dtype: torch.dtype) -> None:
    for n, prefix in ((1, 0), (1, 9000), (7, 63), (33, 301), (60, 2000), (65, 127), (70, 7000)):
        check((heads, kv_heads, n, prefix, d), dtype, "cuda")
        check((heads, kv_heads, n, prefix, d), dtype, "cuda", masked=False)
    for ways in (1, 2, 5, 40):
        check((heads, kv_heads, 20, 255, d), dtype, "cuda", ways, keys=32)


@pytest.mark.gpu
@needs_triton
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_lengths_on_cuda(dtype: torch.dtype) -> None:
    check_placed("cuda", dtype)
    check_sequences("cuda", dtype)
    for window in (1, 3, 9, 70, 1000):
        check_windows("cuda", dtype, window)
        check_windows("cuda", dtype, window, slots=70)
        check_windows("cuda", dtype, window, gaps=40)
        check_sequences("cuda", dtype, window)
    for masked in (True, False):
        for ways in (1, 3):
            check_options("cuda", dtype, masked, ways)


@pytest.mark.gpu
@needs_triton
@pytest.mark.parametrize(
    ("name", "drafter"),
    [*product(["llama"], ["none", "self", "lm", "eagle1", "eagle3"]), *product(["ministral"], ["none", "self"])],
)
def test_decoding_by_graphs_is_identical(name: str, drafter: str) -> None:
    """Without graphs: `test_identity`."""
    check_identity("cuda", drafter, cuda_graph, new=40, length=150, name=name)
