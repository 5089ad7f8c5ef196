"""What the check at load finds: each kind of fault that texts of a few tokens do not show."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import Gemma3TextConfig, MistralConfig

from specextend_cli.engine import check
from specextend_cli.engine import native_runner as runner
from specextend_cli.engine.attention import hybrid
from specextend_cli.engine.check import NotOursError
from specextend_cli.engine.cuda import fused, graphs, ops
from specextend_cli.engine.cuda.graph_check import use_checked_graphs
from specextend_cli.engine.lm import LanguageModel, UnsupportedModelError
from specextend_cli.engine.native_runner import use_natively
from specextend_cli.engine.target import Target
from tests.engine.tiny_models import COMMON, make, tiny
from tests.helpers.grid import but_for
from tests.helpers.repeated_capture import Repeated
from tests.helpers.torch_kernels import replace_kernels

FAR = 4000
"""Rows or positions up to which nothing is wrong."""

LONG = {**COMMON, "max_position_embeddings": 32768}
Fault = Callable[[pytest.MonkeyPatch], None]


def exchange(owner: Any, name: str, change: Callable[..., Any]) -> Fault:
    """Let a function's `change` (its own, arguments) take its place."""

    def apply(patch: pytest.MonkeyPatch) -> None:
        own = getattr(owner, name)
        patch.setattr(owner, name, lambda *given, **named: change(own, *given, **named))

    return apply


def shifted(index: int) -> Callable[..., tuple[int, ...]]:
    """One number of a long cache's place is larger."""

    def change(own: Callable[..., tuple[int, ...]], cache: Any, **given: Any) -> tuple[int, ...]:
        place = list(own(cache, **given))
        if getattr(cache, "length", 0) > FAR:
            place[index] += 128
        return tuple(place)

    return change


def one_bucket(own: Callable[..., Any], body: Any, inputs: Any) -> Any:
    """Graphs of so many rows compute something else."""
    out = own(body, inputs)
    return out._replace(logits=out.logits * 1.5) if inputs.rows == 32 else out


half_at_least = pytest.mark.parametrize("dtype", but_for([torch.bfloat16], [torch.float32, torch.bfloat16]), ids=str)
"""What is found where most is put down to rounding."""
BY_GRAPHS: dict[str, Fault] = {
    "an address": exchange(graphs, "addresses_of", shifted(0)),
    "a stride": exchange(graphs, "addresses_of", shifted(4)),
    "an angle": exchange(fused, "turns_of", lambda own, rotary: own(rotary) * (1 + 1 / 512)),
    "a bucket": exchange(fused.FusedBody, "__call__", one_bucket),
    "a window": exchange(ops, "first_keys", lambda own, size, *given: own(size + 1, *given)),
}


@cache
def mistral(window: int | None, dtype: torch.dtype) -> LanguageModel:
    """A model whose graphs are without fault."""
    lm = LanguageModel(make(MistralConfig(**LONG, sliding_window=window)).to(dtype), backend="triton")
    assert use_checked_graphs(Target(lm), capture=Repeated()) == {}
    return lm


@pytest.mark.parametrize("fault", BY_GRAPHS)
@half_at_least
def test_graphs_with_a_fault_are_not_used(fault: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    replace_kernels(monkeypatch)
    lm = mistral(4096 if fault == "a window" else None, dtype)
    BY_GRAPHS[fault](monkeypatch)
    refused = use_checked_graphs(Target(lm), capture=Repeated())
    assert "differ from transformers'" in refused["the model keeps transformers' layers"]


def wide(own: Callable[..., Any], model: Any) -> Any:
    """Windows that see one position more."""
    read = own(model)
    return replace(read, layers=tuple(replace(layer, window=4097) for layer in read.layers))


def far_angles(own: Callable[..., Any], table: Any, last: int) -> Any:
    for part in (found := own(table, last)):
        part[:, FAR:] = part[:, FAR:].roll(100, 1)
    return found


def far_stride(own: Callable[..., Any], **given: Any) -> Any:
    """Heads lie elsewhere in a large cache."""
    return own(**{**given, "by_head": given["by_head"] + (512 * 32 if given["by_head"] > FAR * 32 else 0)})


NATIVELY: dict[str, Fault] = {
    "an angle": exchange(runner.Rotation, "up_to", far_angles),
    "a stride": exchange(runner, "ForwardStep", far_stride),
    "a window": exchange(runner.Decoder, "of", wide),
}


@pytest.mark.parametrize("kernels", ["ours"], indirect=True, scope="module")
@pytest.mark.parametrize("fault", NATIVELY)
@half_at_least
def test_native_code_with_a_fault_is_not_used(
    fault: str, dtype: torch.dtype, kernels: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = MistralConfig(**LONG, head_dim=32, sliding_window=4096 if fault == "a window" else None)
    lm = LanguageModel(make(config).to(dtype))
    use_natively(lm)
    lm.runner = lm.stock
    NATIVELY[fault](monkeypatch)
    with pytest.raises(NotOursError, match="differ from transformers'"):
        use_natively(lm)
    assert lm.runner is lm.stock


def test_attention_that_merges_wrongly_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """The parts of a softmax, where one of them is long."""

    def wrong(own: Callable[..., Any], q: Tensor, k: Tensor, *given: Any, **named: Any) -> Any:
        out, lse = own(q, k, *given, **named)
        return out, lse + (1 if k.shape[2] > FAR else 0)

    LanguageModel(tiny(), backend="torch", check=check.check_long)
    exchange(hybrid, "flash", wrong)(monkeypatch)
    LanguageModel(tiny(), backend="torch")
    with pytest.raises(UnsupportedModelError) as refused:
        LanguageModel(tiny(), backend="torch", check=check.check_long)
    assert "differ from transformers'" in str(refused.value.why)


def test_all_layers_and_windows_are_there_after_a_check() -> None:
    """It runs the first and last layer, and the first of every other kind."""
    kinds = [*["sliding_attention"] * 3, "full_attention", *["sliding_attention"] * 3]
    sizes = {**COMMON, "num_hidden_layers": 7, "head_dim": 16, "sliding_window": 8, "layer_types": kinds}
    lm = LanguageModel(make(Gemma3TextConfig(**sizes)))
    layers, windows = list(lm.model.get_decoder().layers), (8, 8, 8, None, 8, 8, 8)
    with lm.few_layers():
        assert [layers.index(layer) for layer in lm.model.get_decoder().layers] == [0, 1, 3, 5, 6]
        assert lm.new_cache(1).buffers[0].shape[1] == lm.layers == 5
    assert list(lm.model.get_decoder().layers) == layers
    assert (lm.windows, lm.config.sliding_window) == (windows, 8)
    assert tuple(layer.self_attn.sliding_window for layer in layers) == windows
    some = torch.arange(2)
    assert lm.forward(some, some, lm.new_cache(2), feature_layers=range(8)).features.shape == (2, 8 * 64)
