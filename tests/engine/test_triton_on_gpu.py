"""The Triton kernels as a GPU gets them: compiled without one, and compared with `reference` where there is one."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from test_graphed import check_identity as graphed_identity
from test_identity import DRAFTERS
from test_triton import (
    HEADS,
    INTERPRETING,
    TOLERANCE,
    TRITON,
    check,
    check_identity,
    check_lengths,
    check_scores,
    exact,
    inputs,
    random_tree_mask,
)

from specextend_cli.engine.attention.triton_plan import Chip, plan
from specextend_cli.engine.attention.triton_tree import attend, pack
from specextend_cli.engine.cuda.graphs import cuda_graph

needs_triton = pytest.mark.skipif(TRITON < (3, 2) or INTERPRETING, reason="needs triton, not its interpreter")


TYPES = {"q": "*bf16", "k": "*bf16", "v": "*bf16", "words": "*i64", "length": "*i64", "lse": "*fp32", "scale": "fp32"}
TYPES |= {"parts": "*fp32", "out": "*fp32", "mask": "*i1"}  # whatever is not named here is an integer


@needs_triton
@pytest.mark.parametrize("d", [96, 128])
@pytest.mark.parametrize(("rows", "causal"), [(4, True), (240, False)])
def test_compiles_for_hopper(rows: int, causal: bool, d: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Down to machine code, without a GPU: the interpreter accepts much that the compiler does not."""
    if TRITON < (3, 6):
        pytest.skip("compiling without a GPU is written for triton 3.6 or later")
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from specextend_cli.engine.attention.triton_kernels import attend_split, merge_splits, pack_mask
    from specextend_cli.engine.attention.triton_score_kernel import chunk_log_sums

    memory = 227 * 1024
    cut = plan(rows, 8192, 8, d, 2, Chip(132, memory))
    shape = {"GROUPS": 4, "D": d, "BLOCK_D": 128, "q_d": 1, "k_d": 1, "v_d": 1, "mask_t": 1}
    flags = {"CAUSAL": causal, "HAS_LENGTH": not causal, "PRECISION": "ieee"}
    blocks = {"BLOCK_M": cut.rows, "BLOCK_N": cut.keys, "TAIL_N": 64}
    constants = {
        attend_split: shape | flags | blocks,
        merge_splits: shape | {"BLOCK_S": 64},
        pack_mask: shape,
        chunk_log_sums: shape | flags | {"BLOCK_M": 16, "CHUNK": 32, "CHUNKS": 4},
    }
    for kernel, known in constants.items():
        fixed = {name: value for name, value in known.items() if name in kernel.arg_names}
        types = {name: "constexpr" if name in fixed else TYPES.get(name, "i32") for name in kernel.arg_names}
        source = ASTSource(fn=kernel, signature=types, constexprs=fixed)
        options = {"num_warps": cut.warps, "num_stages": cut.stages}
        compiled = triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options)
        assert compiled.asm["cubin"]
        assert compiled.metadata.shared <= memory


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
