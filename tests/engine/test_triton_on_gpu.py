"""The Triton kernels on a GPU, compared with `reference`."""

from __future__ import annotations

import pytest
import torch

from specextend_cli.engine.attention.triton_tree import attend, pack
from specextend_cli.engine.cuda.graphs import cuda_graph
from tests.engine.test_graphs import check_identity as graphed_identity
from tests.engine.test_triton import (
    HEADS,
    INTERPRETING,
    TOLERANCE,
    TRITON,
    check,
    check_identity,
    check_lengths,
    check_options,
    check_scores,
    exact,
    inputs,
    random_tree_mask,
)
from tests.helpers.decoding import DRAFTERS

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
def test_lengths_and_scores_on_cuda(dtype: torch.dtype) -> None:
    check_lengths("cuda", dtype)
    check_scores("cuda", dtype)
    for masked in (True, False):
        for ways in (1, 3):
            check_options("cuda", dtype, masked, ways)


@pytest.mark.gpu
@needs_triton
@pytest.mark.parametrize("drafter", DRAFTERS)
def test_greedy_decoding_is_identical_on_cuda(drafter: str) -> None:
    check_identity("cuda", drafter, 40)


@pytest.mark.gpu
@needs_triton
@pytest.mark.parametrize("drafter", ["none", "self", "lm", "eagle1", "eagle3"])
def test_decoding_by_graphs_is_identical(drafter: str) -> None:
    graphed_identity("cuda", drafter, cuda_graph, new=40, length=150)


@pytest.mark.gpu
@needs_triton
def test_a_cuda_graph_holds_for_every_length() -> None:
    q, k, v = (tensor.cuda() for tensor in inputs(8, 2, 60, 2000, 128, torch.bfloat16))
    mask, length = random_tree_mask(60).cuda(), torch.tensor(60, device="cuda")
    attend(q, k, v, 0.1, words=pack(mask), tree=60, length=length)  # compiles, which a capture must not
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = attend(q, k, v, 0.1, words=pack(mask), tree=60, length=length)
    for now in (60, 61, 700, 2000):
        length.fill_(now)
        mask.copy_(torch.eye(60, dtype=torch.bool) if now % 2 else random_tree_mask(60))
        graph.replay()
        expected = exact(q, k[:, :, :now], v[:, :, :now], 0.1, mask)
        assert (out.cpu().float() - expected).abs().max() < TOLERANCE[torch.bfloat16]
