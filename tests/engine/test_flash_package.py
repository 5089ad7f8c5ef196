"""Whether flash-attn is used: told by its distribution and its import, and only if it computes attention."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from specextend_cli.engine.attention.flash_package import is_installed, is_right
from specextend_cli.engine.attention_backends import BACKENDS
from specextend_cli.errors import UsageError
from specextend_cli.runtime.devices import check_attention

CPU, CUDA = torch.device("cpu"), torch.device("cuda")
FUNCTION = """
import torch

def flash_attn_func(q, k, v, *, softmax_scale, causal, return_attn_probs=False):
    assert return_attn_probs
    q, k, v = (x.transpose(1, 2).float() for x in (q, k, v))
    k, v = (x.repeat_interleave(q.shape[1] // k.shape[1], 1) for x in (k, v))
    scores = q @ k.transpose(2, 3) * softmax_scale
    if causal:
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
        is_right.cache_clear()
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


def test_it_is_not_installed(install: Install) -> None:
    assert not is_installed()
    assert BACKENDS["flash_attn"].missing() == "flash-attn"


def test_flash_attn_4_is_not_taken_for_flash_attn(install: Install) -> None:
    """It has no `flash_attn/__init__.py` of its own, so that `flash_attn` is found without any function."""
    install(FUNCTION.format(offset=LAST_KEYS), "flash-attn-4", "flash_attn/cute/__init__.py")
    assert not is_installed()


def test_the_distribution_and_the_import_are_asked(install: Install) -> None:
    install("raise OSError('undefined symbol')")
    assert not is_installed()
    with pytest.raises(UsageError) as caught:
        check_attention("flash_attn", CUDA)
    assert "flash-attn is not installed" in caught.value.why


@pytest.mark.parametrize("offset", [LAST_KEYS, FIRST_KEYS])
def test_a_function_that_computes_something_else_is_not_used(install: Install, offset: str) -> None:
    """As flash-attn before 2.1 aligned its causal mask."""
    install(FUNCTION.format(offset=offset))
    assert is_right(CPU, torch.bfloat16, 64) == (offset == LAST_KEYS)
