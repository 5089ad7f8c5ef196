"""Prompts of layers with sliding windows by FlashAttention, whose functions here do what they document."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from specextend_cli.engine.attention import ForwardContext, flash_package
from specextend_cli.engine.attention import hybrid as hybrid_module
from specextend_cli.engine.attention.hybrid import hybrid
from specextend_cli.engine.attention.reference import reference
from specextend_cli.engine.attention.softmax import PLAIN, SoftmaxOptions
from specextend_cli.engine.attention_backends import BACKENDS
from tests.helpers import pretend_device
from tests.helpers.pretend_device import PretendDevice
from tests.helpers.torch_kernels import replace_attention


@pytest.fixture(autouse=True)
def windows(pretend: PretendDevice, monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """The windows that torch's kernel was called with."""
    found, function = list[tuple[int, int]](), pretend_device.flash_attn_func

    def noting(*given: Any, **how: Any) -> Any:
        found.append(how.get("window_size", (-1, -1)))
        return function(*given, **how)

    monkeypatch.setattr(pretend_device, "flash_attn_func", noting)
    replace_attention(monkeypatch)
    return found


@pytest.mark.parametrize("sinks", [False, True])
@pytest.mark.parametrize("backend", ["torch", "triton"])
def test_prompts_through_windows_are_read_in_one_piece(
    windows: list[tuple[int, int]], backend: str, sinks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without masks. What is no prompt, or has gaps, or capped scores, is cut into blocks."""
    monkeypatch.setattr(flash_package, "is_installed", lambda: False)
    made = BACKENDS[backend].make()
    generator, device = torch.Generator().manual_seed(1), torch.device("cuda:0")
    softmax = SoftmaxOptions(None, torch.linspace(-2, 2, 4) if sinks else None)
    there = softmax._replace(sinks=softmax.sinks.to(device) if softmax.sinks is not None else None)

    def some(heads: int, rows: int) -> Tensor:
        return torch.randn(1, heads, rows, 16, generator=generator).bfloat16()

    for n, total, window in ((200, 200, 1), (200, 200, 16), (300, 700, 150), (150, 900, 2000), (1, 90, 16)):
        q, k, v = some(4, n), some(2, total), some(2, total)
        distance = torch.arange(total - n, total)[:, None] - torch.arange(total)
        seen = (distance >= 0) & (distance < window)
        expected = reference(q.float(), k.float(), v.float(), 0.2, seen, softmax)
        ForwardContext(made).attend(*(x.to(device) for x in (q, k, v)), 0.2, window, there)  # checks the kernel
        windows.clear()
        out = ForwardContext(made).attend(*(x.to(device) for x in (q, k, v)), 0.2, window, there)
        assert (out.cpu().float() - expected).abs().max() < 0.02
        assert windows.count((window - 1, 0)) == (n > 1 and window < total)
        assert len(windows) <= 1
    q, k, v = (x.to(device) for x in (some(4, 200), some(2, 400), some(2, 400)))
    tree = torch.ones(200, 200, dtype=torch.bool, device=device).tril()
    at, capped = torch.arange(0, 400, 2, device=device), there._replace(softcap=30.0)
    windows.clear()
    for context, how in (
        (ForwardContext(made, tree), there),
        (ForwardContext(made, key_positions=at), there),
        (ForwardContext(made), capped),
    ):
        context.attend(q, k, v, 0.2, 16, how)
    assert (15, 0) not in windows


def test_a_kernel_without_windows_is_not_used(windows: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes them for something else, or not at all."""
    monkeypatch.setattr(flash_package, "is_installed", lambda: False)
    device, right = torch.device("cuda:0"), hybrid_module._windowed

    def longer(*given: Any, causal: bool, window: int) -> Any:
        return right(*given, causal=causal, window=window + 1)

    def missing(*given: Any, **how: Any) -> Any:
        raise NotImplementedError  # as torch does where a kernel was not built

    q, k = (torch.zeros(1, heads, 200, 16, dtype=torch.bfloat16, device=device) for heads in (4, 2))
    for wrong in (longer, missing):
        monkeypatch.setattr(hybrid_module, "_windowed", wrong)
        hybrid_module._has_windows.cache_clear()
        assert hybrid_module.through_window(q, k, k, 0.2, 16, PLAIN) is None
        assert ForwardContext(hybrid).attend(q, k, k, 0.2, 16).shape == q.shape
