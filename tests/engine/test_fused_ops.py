"""The kernels between a decoder's matrix products against torch, in Triton's interpreter or on a GPU."""

from __future__ import annotations

import pytest
import torch

from specextend_cli.engine.cuda import ops
from specextend_cli.engine.cuda.ops import Norm, Rope
from tests.helpers import torch_kernels
from tests.helpers.grid import grid
from tests.helpers.triton_marks import devices

DTYPES = (torch.float32, torch.float16, torch.bfloat16)
NEAR = {torch.float32: 2e-6, torch.float16: 2e-3, torch.bfloat16: 4e-2}
"""Of the largest number: the interpreter cuts bfloat16 where a GPU rounds it."""


def some(*shape: int, dtype: torch.dtype, device: str, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(device, dtype)


def check_near(ours: torch.Tensor, theirs: torch.Tensor) -> None:
    assert ours.shape == theirs.shape
    assert ours.dtype == theirs.dtype
    difference = (ours.cpu().float() - theirs.cpu().float()).abs().max()
    assert difference <= NEAR[ours.dtype] * theirs.float().abs().max().cpu()


@devices
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("width", [16, 96, 576])
def test_sums_and_norms(device: str, dtype: torch.dtype, width: int) -> None:
    x, y = (some(5, width, dtype=dtype, device=device, seed=seed) for seed in (1, 2))
    norm = Norm(some(width, dtype=dtype, device=device, seed=3), 1e-5)
    for added, factor in ((None, 1.0), (y, 1.0), (y, 0.22)):
        for ours, theirs in zip(
            ops.add_norm(x, added, norm, factor=factor),
            torch_kernels.add_norm(x, added, norm, factor=factor),
            strict=True,
        ):
            check_near(ours, theirs)
    both = torch.zeros(5, 2 * width, dtype=dtype, device=device)
    ops.add_norm(x, None, norm, out=both[:, width:])
    check_near(both[:, width:], torch_kernels.add_norm(x, None, norm)[1])
    assert not both[:, :width].any()


@devices
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("width", [16, 200, 1536])
def test_gated_products_equal_torch_s(device: str, dtype: torch.dtype, width: int) -> None:
    gate_up = some(3, 2 * width, dtype=dtype, device=device)
    check_near(ops.gated(gate_up), torch_kernels.gated(gate_up))


@devices
@grid(dtype=DTYPES, sequences=(1, 3), d=(32, 64, 96))
def test_rotation_and_storing(device: str, dtype: torch.dtype, sequences: int, d: int) -> None:
    """All, some and none of a head's numbers are rotated, with and without norms of queries and keys."""
    heads, kv_heads, layers, capacity, rows = 4, 2, 3, 40, 3  # a program for each row and head
    qkv = some(rows, (heads + 2 * kv_heads) * d, dtype=dtype, device=device)
    norms = tuple(Norm(some(d, dtype=dtype, device=device, seed=seed), 1e-6) for seed in (4, 5))
    starts = (torch.arange(sequences) * 3 + 2).to(device)
    positions = torch.randint(0, 3000, (rows,), generator=torch.Generator().manual_seed(6)).to(device)
    for rotated in (d, d // 2, 0):
        angles = 10000.0 ** (-torch.arange(0, rotated, 2) / max(rotated, 1))
        rope = Rope(torch.cat((angles, torch.tensor([1.1]))).to(device), rotated)
        for pair in (None, norms):
            found = []
            for module in (ops, torch_kernels):
                where = device if module is ops else "cpu"
                buffer = torch.zeros(2, layers, sequences, kv_heads, capacity, d, dtype=dtype, device=where)
                place = torch.tensor([buffer.data_ptr(), *buffer.stride()[:4]], device=where)
                own = None if pair is None else tuple(Norm(norm.weight.to(where), norm.epsilon) for norm in pair)
                turns = Rope(rope.turns.to(where), rotated)
                given = (qkv.to(where), heads, kv_heads, turns, own, place, starts.to(where), positions.to(where), 1)
                found.append((module.rope_and_store(*given), buffer))
            (ours, cache), (theirs, expected) = found
            check_near(ours, theirs)
            check_near(cache, expected)
            assert int((cache != 0).any(-1).sum()) == 2 * rows * kv_heads


@devices
@pytest.mark.parametrize("dtype", DTYPES)
def test_storing_alone(device: str, dtype: torch.dtype) -> None:
    """In the cache's number format, from any strides."""
    keys, values = (some(2, 5, 3, 32, dtype=torch.float32, device=device, seed=seed).transpose(1, 2) for seed in (1, 2))
    starts = torch.tensor([4, 0], device=device)
    buffer = torch.zeros(2, 2, 2, 3, 16, 32, dtype=dtype, device=device)
    place = torch.tensor([buffer.data_ptr(), *buffer.stride()[:4]], device=device)
    ops.store(keys, values, buffer, place, starts, 1)
    for sequence, start in enumerate(starts.tolist()):
        for kind, rows in enumerate((keys, values)):
            check_near(buffer[kind, 1, sequence, :, start : start + 5], rows[sequence].to(dtype))
    assert int((buffer != 0).any(-1).sum()) == 2 * 2 * 3 * 5
