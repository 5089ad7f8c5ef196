"""Number formats and free memory are those of the device that computes, whichever GPU is the current one."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
import torch

from specextend_cli.engine.attention import hybrid
from specextend_cli.errors import FitError
from specextend_cli.models.memory import estimate
from specextend_cli.models.presets import load_preset
from specextend_cli.models.shape import GRAPHS, HEADROOM
from specextend_cli.runtime import loading
from specextend_cli.runtime.devices import dtype_of
from specextend_cli.runtime.loading import check_memory
from specextend_cli.runtime.options import Engine

SECOND = torch.device("cuda:1")


@pytest.fixture
def second(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Two GPUs, the first of which is current."""
    for name, answer in {"is_available": True, "current_device": 0}.items():
        monkeypatch.setattr(torch.cuda, name, lambda answer=answer: answer)
    yield monkeypatch
    hybrid.capability.cache_clear()


@pytest.mark.parametrize(
    ("capability", "dtype"),
    [((7, 0), "float16"), ((7, 5), "float16"), ((8, 0), "bfloat16"), ((8, 9), "bfloat16"), ((12, 0), "bfloat16")],
    ids=["V100", "T4", "A100", "RTX 4090", "RTX 5090"],
)
def test_bfloat16_where_the_gpu_multiplies_it(
    second: pytest.MonkeyPatch, capability: tuple[int, int], dtype: str
) -> None:
    """Not where it is computed in several steps; the other GPU has the other format."""
    capabilities = {SECOND: capability, torch.device("cuda:0"): (8, 0) if dtype == "float16" else (7, 5)}
    second.setattr(torch.cuda, "get_device_capability", lambda device: capabilities[device])
    second.setattr(
        torch.cuda, "is_bf16_supported", lambda including_emulation=True: capabilities[torch.device("cuda:0")][0] >= 8
    )
    assert dtype_of("auto", SECOND) == getattr(torch, dtype)
    assert dtype_of("float32", SECOND) == torch.float32


def test_what_torch_keeps_of_closed_models_is_free(second: pytest.MonkeyPatch) -> None:
    """A second model of the same size fits after the first, which its graphs still hold."""
    preset = load_preset("qwen3-8b-eagle3")
    need = estimate(preset)
    total = int((need + GRAPHS) / HEADROOM) + 1

    class Model:
        def __init__(self) -> None:
            self.runs_by = self

        def __del__(self) -> None:
            allocated.clear()

    allocated = [total]
    second.setattr(torch.cuda, "mem_get_info", lambda device: (10**9, 2 * total))
    second.setattr(torch.cuda, "memory_reserved", lambda device: total - 10**9)
    second.setattr(torch.cuda, "memory_allocated", lambda device: sum(allocated) - 10**9 * len(allocated))
    closed = Model()
    gc.collect()
    with pytest.raises(FitError, match="does not fit into memory"):
        check_memory(preset, SECOND, Engine())
    del closed
    assert allocated
    check_memory(preset, SECOND, Engine())
    assert not allocated


def test_graphs_need_no_memory_where_there_are_none(second: pytest.MonkeyPatch) -> None:
    """Where the user does without."""
    preset = load_preset("qwen3-8b-eagle3")
    need = estimate(preset)

    second.setattr(loading, "free_memory", lambda device: int(need / HEADROOM) + 1)
    second.delenv("SPECEXTEND_GRAPHS", raising=False)
    with pytest.raises(FitError):
        check_memory(preset, SECOND, Engine())
    second.setenv("SPECEXTEND_GRAPHS", "0")
    check_memory(preset, SECOND, Engine())
