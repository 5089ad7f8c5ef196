"""Checks of Triton's attention kernels, on a CPU in its interpreter and on GPUs alike."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from specextend_cli.engine.attention.hybrid import hybrid
from specextend_cli.engine.attention.reference import reference
from specextend_cli.engine.attention.softmax import PLAIN, SoftmaxOptions
from specextend_cli.engine.attention.triton_plan import Chip, plan
from specextend_cli.engine.attention.triton_tree import Placed, attend, first_keys, pack
from tests.helpers.attention_inputs import inputs, random_tree_mask

TOLERANCE = {torch.float32: 4e-6, torch.bfloat16: 3e-2, torch.float16: 4e-3}
HEADS = [(4, 4), (6, 2), (8, 1)]


def exact(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    scale: float,
    mask: torch.Tensor | None,
    softmax: SoftmaxOptions = PLAIN,
) -> torch.Tensor:
    there = None if mask is None else mask.cpu()
    return reference(q.cpu().float(), k.cpu().float(), v.cpu().float(), scale, there, softmax)


def check(
    shape: tuple[int, int, int, int, int],
    dtype: torch.dtype,
    device: str = "cpu",
    ways: int = 0,
    keys: int = 64,
    masked: bool = True,
) -> None:
    """Heads, key heads, queries, keys before them, head dimension; `ways` splits and `keys` a step, not the plan's."""
    heads, kv_heads, n, prefix, d = shape
    q, k, v = (tensor.to(device) for tensor in inputs(heads, kv_heads, n, prefix + n, d, dtype))
    mask = random_tree_mask(n).to(device) if masked else None
    words, tree = (None, None) if mask is None else (pack(mask), n)
    launch = None
    if ways:
        small_gpu = plan(heads // kv_heads * n, prefix + n, kv_heads, d, k.element_size(), Chip())
        launch = small_gpu._replace(splits=ways, keys=keys)
    out = attend(q, k, v, 0.1, words=words, tree=tree, launch=launch)
    assert out.dtype == dtype
    assert out.shape == q.shape
    for other in (exact(q, k, v, 0.1, mask), hybrid(q, k, v, 0.1, mask).cpu().float()):
        assert (out.cpu().float() - other).abs().max() < TOLERANCE[dtype]


def check_placed(device: str, dtype: torch.dtype) -> None:
    """One launch, any cache and length: the keys behind it are garbage."""
    layers, heads, kv_heads, n, d = 3, 4, 2, 9, 64
    q = inputs(heads, kv_heads, n, 140, d, dtype)[0].to(device)
    mask = random_tree_mask(n).to(device)
    for capacity, length in ((9, 9), (64, 64), (100, 73), (140, 140)):
        buffer = torch.randn(2, layers, kv_heads, capacity, d, generator=torch.Generator().manual_seed(length))
        buffer = buffer.to(device, dtype)
        place = torch.tensor([buffer.data_ptr(), *buffer.stride()[:2], 0, buffer.stride(2)], device=device)
        k, v = buffer[:, 1, None, :, :length].clone()
        buffer[..., length:, :] = torch.nan
        words = pack(mask, torch.full((16, 2), -1, device=device))  # of surplus rows and words, zeros
        more = torch.cat((q, q[:, :, :7]), 2)
        sizes = torch.tensor([length, n], device=device)
        out = attend(more, q, q, 0.1, words=words, at=Placed(place, sizes, 1, kv_heads))[:, :, :n]
        assert (out.cpu().float() - exact(q, k, v, 0.1, mask)).abs().max() < TOLERANCE[dtype]


def deep_tree() -> torch.Tensor:
    """The mask of a path of nine nodes, with branches from its first, fourth and last but one."""
    mask = torch.eye(12, dtype=torch.bool)
    for node, parent in enumerate((0, 1, 2, 3, 4, 5, 6, 7, 0, 3, 7), 1):
        mask[node] |= mask[parent]
    return mask


def check_windows(
    device: str, dtype: torch.dtype, window: int, softmax: SoftmaxOptions = PLAIN, slots: int = 12
) -> None:
    """Through a window, a tree's nodes see what positions say; the blocks before all windows are not read.

    With more `slots` the tree is only the last rows of one. Before narrow windows lie more keys: two of the largest
    blocks, which are not read.
    """
    heads, kv_heads, n, d, mask = 6, 2, 12, 64, deep_tree()
    earlier = torch.ones(1, slots - n, dtype=torch.bool).expand(n, -1)
    mask = torch.cat((earlier, mask), 1)
    many = 150 if window < 64 else 70
    for prefix in (0, many):
        total = prefix + slots
        q = inputs(heads, kv_heads, n, total, d, dtype)[0].to(device)
        buffer = torch.randn(2, 2, kv_heads, total + 9, d, generator=torch.Generator().manual_seed(total))
        buffer = buffer.to(device, dtype)
        at = torch.cat((torch.arange(total - n), total - n - 1 + deep_tree().sum(1)))
        seen = torch.cat((torch.ones(n, prefix, dtype=torch.bool), mask), 1) & (at[-n:, None] - at < window)
        k, v = buffer[:, 1, None, :, :total].clone()
        place = torch.tensor([buffer.data_ptr(), *buffer.stride()[:2], 0, buffer.stride(2)], device=device)
        lengths = torch.tensor([total, slots], device=device)
        words = pack(mask.to(device), torch.empty(n, 2, dtype=torch.long, device=device))
        through = first_keys(window, n, lengths, words)
        assert through.first.tolist() == [seen.long().argmax(1).tolist()]
        cut = plan(heads // kv_heads * n, window + 64, kv_heads, d, dtype.itemsize, Chip())
        whole = min(int(through.first.min()), prefix) // cut.keys * cut.keys
        buffer[..., total:, :] = buffer[..., :whole, :] = torch.nan
        there = softmax._replace(sinks=None if softmax.sinks is None else softmax.sinks.to(device))
        options = {"words": words, "softmax": there, "at": Placed(place, lengths, 1, kv_heads, through)}
        expected = exact(q, k, v, 0.1, seen, softmax)
        for launch in (None, cut._replace(splits=5)) if prefix == many else (None,):
            out = attend(q, q, q, 0.1, **options, launch=launch)
            assert (out.cpu().float() - expected).abs().max() < TOLERANCE[dtype], (prefix, launch)


def check_sequences(device: str, dtype: torch.dtype, window: int | None = None) -> None:
    """One query of each of several sequences, which differ in length."""
    b, layers, heads, kv_heads, capacity, d = 4, 3, 6, 2, 320, 64
    generator = torch.Generator().manual_seed(0)
    buffer = torch.randn(2, layers, b, kv_heads, capacity, d, generator=generator).to(device, dtype)
    q = torch.randn(b, heads, 1, d, generator=generator).to(device, dtype)
    place = torch.tensor([buffer.data_ptr(), *buffer.stride()[:4]], device=device)
    lengths = [5, 1, 320, 77]
    ends = torch.tensor([*lengths, 1], device=device)
    seen = None if window is None else first_keys(window, 1, ends, None)
    out = attend(q, q, q, 0.1, at=Placed(place, ends, 2, kv_heads, seen))
    for sequence, length in enumerate(lengths):
        k, v = buffer[:, 2, sequence, None, :, max(0, length - (window or length)) : length]
        one = slice(sequence, sequence + 1)
        assert (out[one].cpu().float() - exact(q[one], k, v, 0.1, None)).abs().max() < TOLERANCE[dtype]


def check_options(device: str, dtype: torch.dtype, masked: bool, ways: int) -> None:
    q, k, v = (tensor.to(device) for tensor in inputs(6, 2, 7, 190, 64, dtype))
    mask = random_tree_mask(7) if masked else None
    words, tree = (None, None) if mask is None else (pack(mask.to(device)), 7)
    launch = plan(21, 190, 2, 64, k.element_size(), Chip())._replace(splits=ways)
    sinks = torch.linspace(-4, 4, 6)
    for options in (SoftmaxOptions(0.7), SoftmaxOptions(None, sinks), SoftmaxOptions(0.7, sinks)):
        there = options._replace(sinks=None if options.sinks is None else options.sinks.to(device))
        out = attend(q, k, v, 0.1, words=words, tree=tree, launch=launch, softmax=there)
        expected = reference(q.cpu().float(), k.cpu().float(), v.cpu().float(), 0.1, mask, options)
        assert (out.cpu().float() - expected).abs().max() < TOLERANCE[dtype]


def multiply_bfloat16(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let Triton's interpreter multiply bfloat16: widened before, as a GPU adds up the products in float32."""
    import triton.language as tl
    from triton.runtime.interpreter import InterpreterBuilder, TensorHandle

    multiply = InterpreterBuilder.create_dot

    def widened(matrix: Any) -> Any:
        if matrix.dtype.scalar.name != "bf16":
            return matrix
        return TensorHandle((matrix.data.astype(np.uint32) << 16).view(np.float32), tl.float32)

    def create_dot(self: Any, a: Any, b: Any, *more: Any) -> Any:
        return multiply(self, widened(a), widened(b), *more)

    monkeypatch.setattr(InterpreterBuilder, "create_dot", create_dot)
