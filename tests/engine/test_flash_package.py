"""flash-attn and torch's FlashAttention: used where they compute attention, here by functions that do as documented."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from torch import Tensor

from specextend_cli.engine.attention import ForwardContext, flash_package
from specextend_cli.engine.attention import hybrid as hybrid_module
from specextend_cli.engine.attention.flash_package import is_installed
from specextend_cli.engine.attention.hybrid import hybrid, is_attention
from specextend_cli.engine.attention.reference import reference
from specextend_cli.engine.attention.softmax import PLAIN, SoftmaxOptions
from specextend_cli.engine.attention_backends import BACKENDS
from specextend_cli.errors import UsageError
from specextend_cli.runtime.devices import check_attention
from tests.helpers import pretend_device
from tests.helpers.pretend_device import PretendDevice
from tests.helpers.torch_kernels import replace_attention

CPU, CUDA = torch.device("cpu"), torch.device("cuda")
FUNCTION = """
import torch

def flash_attn_func(q, k, v, *, softmax_scale, causal, return_attn_probs=False):
    assert return_attn_probs
    q, k, v = (x.transpose(1, 2).float() for x in (q, k, v))
    k, v = (x.repeat_interleave(q.shape[1] // k.shape[1], 1) for x in (k, v))
    scores = q @ k.transpose(2, 3) * softmax_scale
    hidden = torch.ones(scores.shape[2:], dtype=torch.bool).triu(1 + {offset})
    scores = scores.masked_fill(hidden, -torch.inf)
    return ((scores.softmax(-1) @ v).transpose(1, 2).to(torch.bfloat16), scores.logsumexp(-1), None)
"""
LAST_KEYS, FIRST_KEYS = "scores.shape[3] - scores.shape[2]", "0"
Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """A distribution as pip leaves it: its metadata, and the module that has the function."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def forget() -> None:
        is_installed.cache_clear()
        is_attention.cache_clear()
        for name in [name for name in sys.modules if name.partition(".")[0] == "flash_attn"]:
            del sys.modules[name]

    def write(source: str, distribution: str = "flash-attn", path: str = "flash_attn/__init__.py") -> None:
        info = tmp_path / f"{distribution.replace('-', '_')}-9.9.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 9.9\n")
        module = tmp_path / path
        module.parent.mkdir(parents=True, exist_ok=True)
        module.write_text(source)
        forget()

    forget()
    yield write
    forget()


@pytest.mark.parametrize(
    "given",
    [
        (),
        (FUNCTION.format(offset=LAST_KEYS), "flash-attn-4", "flash_attn/cute/__init__.py"),
        ("raise OSError('undefined symbol')",),
    ],
)
def test_it_is_not_installed(install: Install, given: tuple[str, ...]) -> None:
    """Not at all; only the fourth, without whose `__init__` `flash_attn` is found, but no function; or broken."""
    if given:
        install(*given)
    assert not is_installed()
    assert BACKENDS["flash_attn"].missing() == "flash-attn"
    with pytest.raises(UsageError) as caught:
        check_attention("flash_attn", CUDA)
    assert "flash-attn is not installed" in caught.value.why


@pytest.mark.parametrize("offset", [LAST_KEYS, FIRST_KEYS])
def test_a_function_that_computes_something_else_is_not_used(install: Install, offset: str) -> None:
    """As flash-attn before 2.1 aligned its causal mask."""
    install(FUNCTION.format(offset=offset))
    found = is_attention(flash_package._attend, CPU, torch.bfloat16, 64, causal=True)
    assert found == (offset == LAST_KEYS)


@pytest.fixture
def kernel(pretend: PretendDevice, monkeypatch: pytest.MonkeyPatch) -> Mock:
    """torch's, whose calls are noted."""
    spy = Mock(wraps=pretend_device.flash_attn_func)
    monkeypatch.setattr(pretend_device, "flash_attn_func", spy)
    monkeypatch.setattr(flash_package, "is_installed", lambda: False)
    replace_attention(monkeypatch)
    return spy


def windows(kernel: Mock) -> list[tuple[int, int]]:
    return [call.kwargs.get("window_size", (-1, -1)) for call in kernel.mock_calls]


@pytest.mark.parametrize("sinks", [False, True])
@pytest.mark.parametrize("backend", ["torch", "triton"])
def test_prompts_through_windows_are_read_in_one_piece(kernel: Mock, backend: str, sinks: bool) -> None:
    """Without masks. What is no prompt, or has capped scores, is cut into blocks."""
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
        ForwardContext(backend=made).attend(*(x.to(device) for x in (q, k, v)), 0.2, window, there)  # checks the kernel
        kernel.reset_mock()
        out = ForwardContext(backend=made).attend(*(x.to(device) for x in (q, k, v)), 0.2, window, there)
        assert (out.cpu().float() - expected).abs().max() < 0.02
        assert windows(kernel).count((window - 1, 0)) == (n > 1 and window < total)
        assert len(windows(kernel)) <= 1
    q, k, v = (x.to(device) for x in (some(4, 200), some(2, 400), some(2, 400)))
    tree = torch.ones(200, 200, dtype=torch.bool, device=device).tril()
    capped = there._replace(softcap=30.0)
    kernel.reset_mock()
    for context, how in (
        (ForwardContext(backend=made, tree_mask=tree), there),
        (ForwardContext(backend=made), capped),
    ):
        context.attend(q, k, v, 0.2, 16, how)
    assert (15, 0) not in windows(kernel)


def test_a_kernel_without_windows_is_not_used(kernel: Mock, monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes them for something else, or not at all."""
    device, right = torch.device("cuda:0"), hybrid_module._windowed

    def longer(*given: Any, causal: bool, window: int) -> Any:
        return right(*given, causal=causal, window=window + 1)

    missing = Mock(side_effect=NotImplementedError)  # as torch does where a kernel was not built
    q, k = (torch.zeros(1, heads, 200, 16, dtype=torch.bfloat16, device=device) for heads in (4, 2))
    for wrong in (longer, missing):
        monkeypatch.setattr(hybrid_module, "_windowed", wrong)
        is_attention.cache_clear()
        assert hybrid_module.through_window(q, k, k, 0.2, 16, PLAIN) is None
        assert ForwardContext(backend=hybrid).attend(q, k, k, 0.2, 16).shape == q.shape
