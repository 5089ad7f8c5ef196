"""Prompts of layers with sliding windows by a FlashAttention package, whose function here does what it documents."""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import pytest
import torch

from specextend_cli.engine.attention import ForwardContext, flash_packages
from specextend_cli.engine.attention.reference import reference
from specextend_cli.engine.attention.softmax import SoftmaxOptions
from specextend_cli.engine.attention_backends import BACKENDS
from tests.helpers.pretend_device import PretendDevice, flash_attn_func
from tests.helpers.torch_kernels import replace_attention


@pytest.fixture(autouse=True)
def windows(pretend: PretendDevice, monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """The windows that flash-attn was called with."""
    found, package = list[tuple[int, int]](), ModuleType("flash_attn")

    def noting(*given: Any, **how: Any) -> Any:
        found.append(how.get("window_size", (-1, -1)))
        return flash_attn_func(*given, **how)

    package.__spec__, package.flash_attn_func = ModuleSpec("flash_attn", None), noting
    monkeypatch.setitem(sys.modules, "flash_attn", package)
    monkeypatch.setattr(flash_packages, "installed", lambda: (flash_packages.FLASH_ATTN,))
    replace_attention(monkeypatch)
    return found


@pytest.mark.parametrize("backend", ["flash_attn", "triton"])
@pytest.mark.parametrize("sinks", [False, True])
def test_prompts_through_windows_are_read_by_the_package(
    windows: list[tuple[int, int]], backend: str, sinks: bool
) -> None:
    """In one piece, without masks. What is no prompt, or has gaps, or capped scores, is cut into blocks."""
    made = BACKENDS[backend].make()
    generator, device = torch.Generator().manual_seed(1), torch.device("cuda:0")
    softmax = SoftmaxOptions(None, torch.linspace(-2, 2, 4) if sinks else None)
    there = softmax._replace(sinks=softmax.sinks.to(device) if softmax.sinks is not None else None)
    assert flash_packages.checked_windows(device, torch.bfloat16, 16) is flash_packages.FLASH_ATTN
    for n, total, window in ((200, 200, 1), (200, 200, 16), (300, 700, 150), (150, 900, 2000), (1, 90, 16)):
        q, k, v = (
            torch.randn(1, h, m, 16, generator=generator).bfloat16() for h, m in ((4, n), (2, total), (2, total))
        )
        place = torch.arange(total) - torch.arange(total - n, total)[:, None]
        seen = (place <= 0) & (place > -window)
        expected = reference(q.float(), k.float(), v.float(), 0.2, seen, softmax)
        windows.clear()
        out = ForwardContext(made).attend(*(x.to(device) for x in (q, k, v)), 0.2, window, there)
        assert (out.cpu().float() - expected).abs().max() < 0.02
        assert ((window - 1, 0) in windows) == (n > 1 and window < total)
    q, k, v = (x.to(device) for x in (q.expand(-1, -1, 200, -1), k[:, :, :1].expand(-1, -1, 400, -1), k[:, :, :400]))
    tree = torch.ones(200, 200, dtype=torch.bool, device=device)
    at = torch.arange(0, 400, 2, device=device)
    windows.clear()
    for context in (ForwardContext(made, tree), ForwardContext(made, positions=at)):
        context.attend(q, k.contiguous(), k.contiguous(), 0.2, 16, there)
    ForwardContext(made).attend(q, k.contiguous(), k.contiguous(), 0.2, 16, there._replace(softcap=30.0))
    assert (15, 0) not in windows
