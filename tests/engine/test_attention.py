"""Every back end against a softmax that is written out: masks of trees, windows, capped scores, sinks."""

from __future__ import annotations

from itertools import product
from unittest.mock import Mock

import pytest
import torch
from torch import Tensor

from specextend_cli.engine.attention import hybrid as hybrid_module
from specextend_cli.engine.attention.function import ForwardContext
from specextend_cli.engine.attention.hybrid import Kernel, hybrid, take_failure
from specextend_cli.engine.attention.reference import reference
from specextend_cli.engine.attention.softmax import SoftmaxOptions
from specextend_cli.engine.attention_backends import BACKENDS, AttentionBackend, backend_for
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.engine.target import Target
from specextend_cli.engine.tree import DraftTree
from tests.engine.tiny_models import tiny
from tests.helpers import pretend_device
from tests.helpers.attention_inputs import inputs, random_tree_mask
from tests.helpers.grid import pairs
from tests.helpers.pretend_device import PretendDevice

TOLERANCE = {torch.float32: 4e-6, torch.bfloat16: 2e-2, torch.float16: 3e-3}


def written_out(q: Tensor, k: Tensor, v: Tensor, seen: Tensor, options: SoftmaxOptions) -> Tensor:
    """As transformers' eager attention computes it: the sinks are one more column, which is dropped."""
    groups = q.shape[1] // k.shape[1]
    scores = q @ k.repeat_interleave(groups, 1).transpose(2, 3) * 0.2
    if options.softcap:
        scores = options.softcap * torch.tanh(scores / options.softcap)
    scores = scores.masked_fill(~seen, -torch.inf)
    if options.sinks is not None:
        scores = torch.cat((scores, options.sinks[None, :, None, None].expand(*scores.shape[:3], 1)), -1)
    return scores.softmax(-1)[..., : k.shape[2]] @ v.repeat_interleave(groups, 1)


SIZES = [
    *((n, prefix, False) for n, prefix in ((1, 0), (1, 700), (300, 0), (300, 350))),
    *((n, prefix, True) for n, prefix in ((7, 0), (12, 90), (40, 65))),
]
"""Queries, keys before them, and whether the queries are a tree's."""


@pairs(
    sizes=((14, 2, 24), (4, 4, 64), (6, 2, 96), (8, 1, 128)),
    backend=("split", "torch", "reference"),
    dtype=TOLERANCE,
    options=("plain", "capped", "sinks", "both"),
)
def test_back_ends_equal_what_is_written_out(
    monkeypatch: pytest.MonkeyPatch,
    sizes: tuple[int, int, int],
    backend: str,
    dtype: torch.dtype,
    options: str,
) -> None:
    """Of a tree, and of its last levels: a drafter's mask is wider than it is high."""
    heads, kv_heads, d = sizes
    sinks = torch.linspace(-4, 4, heads) if options in ("sinks", "both") else None
    softmax = SoftmaxOptions(0.7 if options in ("capped", "both") else None, sinks)
    monkeypatch.setattr(hybrid_module, "_SCORES", heads * 700 * 100)  # so that capped scores are computed in blocks
    for (n, prefix, in_tree), window in product(SIZES, (None, 1, 5, 16, 600, 2000)):
        q, k, v = inputs(heads, kv_heads, n, prefix + n, d, dtype)
        own = random_tree_mask(n) if in_tree else torch.ones(n, n, dtype=torch.bool).tril()
        positions = prefix + own.sum(1) - 1
        seen = torch.cat((torch.ones(n, prefix, dtype=torch.bool), own), 1)
        seen &= positions[:, None] - torch.cat((torch.arange(prefix), positions)) < (window or 9999)
        expected = written_out(q.float(), k.float(), v.float(), seen, softmax)
        for first in {0, n // 2, n - 1} if in_tree else {0}:
            mask, chosen = own[first:] if in_tree else None, BACKENDS[backend].make()
            context = ForwardContext(backend=chosen, tree_mask=mask)
            out = context.attend(q[:, :, first:], k, v, 0.2, window, softmax)
            assert out.dtype == dtype
            assert (out.float() - expected[:, :, first:]).abs().max() < TOLERANCE[dtype], (n, prefix, window)


@pytest.mark.parametrize("name", ["llama", "mistral-window"])
@torch.inference_mode()
def test_no_mask_of_prompt_size_is_built(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a long prompt and of a tree; through a window masks are small, and made once for all layers."""
    spy = Mock(wraps=reference)
    monkeypatch.setitem(BACKENDS, "reference", AttentionBackend(lambda: spy))
    target = Target(LanguageModel(tiny(name), backend="reference"))
    spy.reset_mock()  # after the check at load

    def masks() -> list[Tensor]:
        return [mask for _, (*_, mask, _), _ in spy.mock_calls if mask is not None]

    target.begin(1600)
    for _ in range(2):
        target.prefill(torch.zeros(700, dtype=torch.long))
    assert len({id(mask) for mask in masks()}) * target.lm.layers <= len(masks())
    assert bool(masks()) == (name == "mistral-window")
    target.verify(DraftTree([1, 2, 3], [0, 0, 1], [1.0, 0.5, 0.4]))
    assert max(mask.numel() for mask in masks()) <= 256 * (40 + 256)


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
    monkeypatch.setattr(hybrid_module, "_kernel_for", lambda q, k: kernel)
    for n, prefix in ((1, 50), (40, 0), (40, 65)):
        q, k, v = inputs(6, 2, n, prefix + n, 64, torch.float16)
        out = hybrid(*(rows.to("cuda") for rows in (q, k, v)), 0.11, None)
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
