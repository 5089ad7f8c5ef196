"""Which FlashAttention is used: told by distributions and imports, and only what computes attention."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from specextend_cli.engine.attention import flash_packages
from specextend_cli.engine.attention.flash_packages import (
    FLASH_ATTN,
    FLASH_ATTN_4,
    checked_package,
    checked_windows,
    installed,
)
from specextend_cli.engine.attention_backends import BACKENDS, preferred
from specextend_cli.errors import UsageError
from specextend_cli.runtime.devices import check_attention

CPU, CUDA = torch.device("cpu"), torch.device("cuda")
FUNCTION = """
import torch

def flash_attn_func(q, k, v, *, softmax_scale, causal, {asked}=False{window}):
    assert {asked}
    q, k, v = (x.transpose(1, 2).float() for x in (q, k, v))
    k, v = (x.repeat_interleave(q.shape[1] // k.shape[1], 1) for x in (k, v))
    scores = q @ k.transpose(2, 3) * softmax_scale
    if causal:
        hidden = torch.ones(scores.shape[2:], dtype=torch.bool).triu(1 + {offset})
        scores = scores.masked_fill(hidden, -torch.inf)
    if {before} >= 0:
        scores = scores.masked_fill(torch.ones(scores.shape[2:]).tril({offset} - {before} - 1) > 0, -torch.inf)
    out = (scores.softmax(-1) @ v).transpose(1, 2).to(torch.bfloat16)
    return (out, scores.logsumexp(-1){rest})
"""
WINDOW, BEFORE = ", window_size=(-1, -1)", "window_size[0]"
LAST_KEYS, FIRST_KEYS = "scores.shape[3] - scores.shape[2]", "0"
Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Distributions as pip leaves them: their metadata, and the module that has the function."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def forget() -> None:
        installed.cache_clear()
        checked_package.cache_clear()
        checked_windows.cache_clear()
        for name in [name for name in sys.modules if name.partition(".")[0] == "flash_attn"]:
            del sys.modules[name]

    def write(distribution: str, path: str, source: str) -> None:
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


def two(install: Install, offset: str = LAST_KEYS, window: str = WINDOW, before: str = BEFORE) -> None:
    source = FUNCTION.format(asked="return_attn_probs", offset=offset, rest=", None", window=window, before=before)
    install("flash-attn", "flash_attn/__init__.py", source)


def four(install: Install) -> None:
    """It has no `flash_attn/__init__.py` of its own, so that `flash_attn` is found without any function."""
    source = FUNCTION.format(asked="return_lse", offset=LAST_KEYS, rest="", window=WINDOW, before=BEFORE)
    install("flash-attn-4", "flash_attn/cute/__init__.py", source)


def test_none_is_installed(install: Install) -> None:
    assert installed() == ()
    assert BACKENDS["flash_attn"].missing() == "flash-attn"


def test_flash_attn_4_is_not_taken_for_flash_attn(install: Install) -> None:
    four(install)
    assert installed() == (FLASH_ATTN_4,)
    assert BACKENDS["flash_attn"].missing() == ""
    assert "flash_attn" not in preferred(CUDA)


def test_the_distribution_and_the_import_are_asked(install: Install) -> None:
    install("flash-attn", "flash_attn/__init__.py", "raise OSError('undefined symbol')")
    assert installed() == ()
    with pytest.raises(UsageError) as caught:
        check_attention("flash_attn", CUDA)
    assert "flash-attn is not installed" in caught.value.why


@pytest.mark.parametrize("hopper", [False, True])
def test_auto_takes_flash_attn_only_where_it_is_faster_than_torch(
    install: Install, monkeypatch: pytest.MonkeyPatch, hopper: bool
) -> None:
    two(install)
    monkeypatch.setattr(flash_packages, "is_hopper_or_later", lambda device: hopper)
    assert ("flash_attn" in preferred(CUDA)) is not hopper
    assert preferred(CUDA, "flash_attn") == ("flash_attn",)
    assert "flash_attn" not in preferred(CPU)


@pytest.mark.parametrize(("hopper", "used"), [(False, FLASH_ATTN), (True, FLASH_ATTN_4)])
def test_with_both_the_newer_one_serves_newer_gpus(
    install: Install, monkeypatch: pytest.MonkeyPatch, hopper: bool, used: object
) -> None:
    two(install)
    four(install)
    assert installed() == (FLASH_ATTN, FLASH_ATTN_4)
    monkeypatch.setattr(flash_packages, "is_hopper_or_later", lambda device: hopper)
    assert checked_package(CPU, torch.bfloat16, 64) is used


def test_a_function_that_computes_something_else_is_not_used(install: Install) -> None:
    two(install, offset=FIRST_KEYS)  # as flash-attn before 2.1 aligned its causal mask
    assert installed() == (FLASH_ATTN,)
    assert checked_package(CPU, torch.bfloat16, 64) is None
    q = SimpleNamespace(is_cuda=True, dtype=torch.bfloat16, device=CPU, shape=(1, 4, 200, 64))
    with pytest.raises(RuntimeError, match="flash-attn cannot be used for heads of 64 dimensions"):
        flash_packages.flash_attn(q, q, q, 0.1, None)


def test_where_one_is_wrong_the_other_is_used(install: Install) -> None:
    two(install, offset=FIRST_KEYS)
    four(install)
    assert checked_package(CPU, torch.bfloat16, 64) is FLASH_ATTN_4


WINDOWS = {
    "right": {},
    "none": {"window": "", "before": "-1"},
    "ignored": {"before": "-1"},
    "one key more": {"before": "window_size[0] + (window_size[0] >= 0)"},
    "one key less": {"before": "max(window_size[0] - 1, 0) * (window_size[0] >= 0) - (window_size[0] < 0)"},
    "as large as it": {"before": "min(window_size[0], 100)"},
}


@pytest.mark.parametrize("how", WINDOWS)
def test_windows_are_checked_for_themselves(install: Install, how: str) -> None:
    """Without them, the package still reads prompts of layers that see everything."""
    two(install, **WINDOWS[how])
    assert checked_package(CPU, torch.bfloat16, 64) is FLASH_ATTN
    assert (checked_windows(CPU, torch.bfloat16, 64) is FLASH_ATTN) == (how == "right")
