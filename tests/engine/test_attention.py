from __future__ import annotations

import pytest
import torch
from torch import Tensor

from specextend_cli.engine.attention import hybrid as hybrid_module
from specextend_cli.engine.attention.hybrid import Kernel, flash, hybrid, merge, take_failure
from specextend_cli.engine.attention.reference import reference
from specextend_cli.engine.attention.split_kv import split_kv
from specextend_cli.engine.attention_backends import backend_for
from tests.helpers import pretend_device
from tests.helpers.attention_inputs import inputs, random_tree_mask
from tests.helpers.pretend_device import PretendDevice

TOLERANCE = {torch.float32: 2e-6, torch.bfloat16: 2e-2, torch.float16: 3e-3}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("d", [64, 96, 128])
@pytest.mark.parametrize(("heads", "kv_heads"), [(4, 4), (6, 2), (8, 1)])
@pytest.mark.parametrize(("n", "prefix"), [(1, 0), (1, 333), (7, 0), (7, 333), (40, 65)])
def test_back_ends_equal_the_reference(
    heads: int, kv_heads: int, n: int, prefix: int, d: int, dtype: torch.dtype
) -> None:
    """Of a tree, and of its last level: a drafter's mask is wider than it is high."""
    q, k, v = inputs(heads, kv_heads, n, prefix + n, d, dtype)
    mask = random_tree_mask(n)
    expected = reference(q.float(), k.float(), v.float(), d**-0.5, mask)
    for first in {0, n // 2, n - 1}:
        for backend in (hybrid, split_kv):
            out = backend(q[:, :, first:], k, v, d**-0.5, mask[first:])
            assert out.dtype == dtype
            assert (out.float() - expected[:, :, first:]).abs().max() < TOLERANCE[dtype]


@pytest.mark.parametrize("threads", [1, 2, 3, 4, 6])
@pytest.mark.parametrize("kv_heads", [1, 2, 3])
@pytest.mark.parametrize(("n", "total"), [(1, 700), (1, 701), (5, 702), (5, 703), (60, 900), (2, 129)])
def test_split_kv_equals_the_reference(
    monkeypatch: pytest.MonkeyPatch, threads: int, kv_heads: int, n: int, total: int
) -> None:
    """Views of a larger buffer, whatever lies behind their end; trees of different masks one after the other."""
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    generator = torch.Generator().manual_seed(total)
    buffer = torch.randn(2, kv_heads, total + 7, 64, generator=generator)
    buffer[:, :, total:] = torch.nan
    k, v = buffer[0][None, :, :total], buffer[1][None, :, :total]
    q = torch.randn(1, 3 * kv_heads, n, 64, generator=generator)
    for mask in (random_tree_mask(n), random_tree_mask(n), None if n == 1 else torch.ones(n, n, dtype=torch.bool)):
        expected = reference(q, k, v, 0.125, mask)
        for _ in range(2):
            assert (split_kv(q, k, v, 0.125, mask) - expected).abs().max() < TOLERANCE[torch.float32]


FLASH = pretend_device._EMULATED[torch.ops.aten._scaled_dot_product_flash_attention]


def cudnn(q: Tensor, k: Tensor, v: Tensor, *options: object, scale: float) -> tuple[Tensor, ...]:
    causal = options[3:4] == (True,)  # defaults are left out
    k, v = (rows.repeat_interleave(q.shape[1] // k.shape[1], 1) for rows in (k, v))
    return FLASH(q, k, v, 0.0, causal, scale=scale)


@pytest.mark.parametrize("kernel", ["cudnn", "flash", "efficient"])
def test_a_named_kernel_reads_a_prompt(kernel: Kernel, pretend: PretendDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    """And no other does. cuDNN's takes key heads as they are; the pretend device has none of its own."""
    aten, emulated = torch.ops.aten, dict(pretend_device._EMULATED)
    monkeypatch.setattr(pretend_device, "_way", pretend_device._way.__wrapped__)  # it remembers what is emulated
    kernels = {name: getattr(aten, f"_scaled_dot_product_{name}_attention") for name in ("cudnn", "flash", "efficient")}
    for name, operation in kernels.items():
        monkeypatch.delitem(pretend_device._EMULATED, operation, raising=False)
        if name == kernel:
            monkeypatch.setitem(pretend_device._EMULATED, operation, emulated.get(operation, cudnn))
    for n, prefix in ((1, 50), (40, 0), (40, 65)):
        q, k, v = inputs(6, 2, n, prefix + n, 64, torch.float16)
        out = hybrid(*(rows.to("cuda") for rows in (q, k, v)), 0.11, None, kernel=kernel)
        expected = reference(q.float(), k.float(), v.float(), 0.11, None)
        assert (out.cpu().float() - expected).abs().max() < TOLERANCE[torch.float16]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("d", [20, 100, 320])
def test_heads_of_any_width_on_a_gpu(pretend: PretendDevice, d: int, dtype: torch.dtype) -> None:
    """FlashAttention takes multiples of eight up to 256."""
    for n, prefix in ((1, 50), (40, 0), (40, 65)):
        q, k, v = inputs(6, 2, n, prefix + n, d, dtype)
        for mask in (None, random_tree_mask(n)):
            out = hybrid(*(rows.to("cuda") for rows in (q, k, v)), 0.05, None if mask is None else mask.to("cuda"))
            expected = reference(q.float(), k.float(), v.float(), 0.05, mask)
            assert out.shape == q.shape
            assert (out.cpu().float() - expected).abs().max() < TOLERANCE[dtype]


def test_a_size_that_cudnn_refuses_is_read_by_flash(pretend: PretendDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own keys, or those before it: cuDNN is not asked again, which is told once. Want of memory is an error."""
    error: RuntimeError = RuntimeError("cuDNN Frontend error: no valid execution plans")
    asked, refused = list[int](), list[int]()

    def refusing(q: Tensor, k: Tensor, v: Tensor, *options: object, scale: float) -> tuple[Tensor, ...]:
        asked.append(k.shape[2])
        if k.shape[2] in refused:
            raise error
        return cudnn(q, k, v, *options, scale=scale)

    monkeypatch.setattr(pretend_device, "_way", pretend_device._way.__wrapped__)
    monkeypatch.setitem(pretend_device._EMULATED, torch.ops.aten._scaled_dot_product_cudnn_attention, refusing)
    monkeypatch.setattr(hybrid_module, "_has_cudnn", lambda *heads: True)
    q, k, v = (rows.to("cuda") for rows in inputs(6, 2, 512, 1536, 16, torch.float16))
    expected = reference(*(rows.cpu().float() for rows in (q, k, v)), 0.11, None)
    for refused, sizes in (([], [512, 1024] * 2), ([512], [512]), ([1024], [512, 1024])):
        asked.clear()
        monkeypatch.setattr(hybrid_module, "_failures", {})
        for _ in range(2):
            assert (hybrid(q, k, v, 0.11, None).cpu().float() - expected).abs().max() < TOLERANCE[torch.float16]
        assert asked == sizes
        assert take_failure() == (str(error) if refused else "")
        assert take_failure() == ""
    monkeypatch.setattr(hybrid_module, "_failures", {})
    error = torch.OutOfMemoryError("CUDA out of memory")
    with pytest.raises(torch.OutOfMemoryError):
        hybrid(q, k, v, 0.11, None)


def test_merge_is_attention_over_the_union() -> None:
    q, k, v = inputs(2, 2, 5, 40, 64, torch.float32)
    whole, _ = flash(q, k, v, 0.125)
    left, right = flash(q, k[:, :, :11], v[:, :, :11], 0.125), flash(q, k[:, :, 11:], v[:, :, 11:], 0.125)
    assert torch.allclose(merge(*left, *right), whole, atol=1e-6)


def test_an_unknown_back_end_is_refused() -> None:
    with pytest.raises(ValueError, match="there are: reference, torch, flash_attn"):
        backend_for(torch.device("cpu"), "fast")


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["torch", "flash_attn"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize(("n", "prefix", "masked"), [(1, 999, True), (33, 999, True), (33, 999, False), (8, 0, True)])
def test_on_cuda(name: str, dtype: torch.dtype, n: int, prefix: int, masked: bool) -> None:
    if name == "flash_attn":
        pytest.importorskip("flash_attn")
    q, k, v = (tensor.cuda() for tensor in inputs(8, 2, n, prefix + n, 128, dtype))
    mask = random_tree_mask(n).cuda() if masked else None
    expected = reference(q.float(), k.float(), v.float(), 0.09, mask)
    out = backend_for(q.device, name)(q, k, v, 0.09, mask)
    assert (out.float() - expected).abs().max() < TOLERANCE[dtype] * 4
