"""Four bits a weight, and the full weights of the same values, give the same numbers and the same tokens."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn
from transformers import PreTrainedModel, Qwen2Config

from specextend_cli.engine.four_bit import FourBitLinear, full_weights, round_to_four_bit, use_four_bit
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.engine.target import Target
from tests.engine.tiny_heads import tiny_head
from tests.engine.tiny_models import COMMON, by_generate, generate, make, prompt, tiny
from tests.helpers.decoding import DRAFTERS, NEW, run, small
from tests.helpers.four_bit_weights import four_bit, halves, random_weights
from tests.helpers.grid import grid

pytestmark = pytest.mark.skipif(
    torch.backends.cpu.get_cpu_capability() not in ("AVX2", "AVX512"), reason="no 4-bit kernel for this processor"
)


@pytest.mark.parametrize("rows", [1, 3, 16, 17, 40])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.bfloat16, 2e-2)])
def test_packed_and_full_weights_agree(rows: int, dtype: torch.dtype, tolerance: float) -> None:
    layer = four_bit(dtype).get_submodule("model.layers.0.mlp.down_proj")
    assert isinstance(layer, FourBitLinear)
    x = torch.randn(1, rows, layer.in_features, generator=torch.Generator().manual_seed(1)).to(dtype)
    expected = x.double() @ layer.weight.double().T
    torch.testing.assert_close(layer(x).double(), expected, rtol=tolerance, atol=tolerance)


def test_few_rows_read_packed_weights() -> None:
    """With other full weights, few rows do not notice; many do, and all while the full weights are asked for."""
    model = four_bit()
    layer = model.get_submodule("model.layers.0.mlp.down_proj")
    x = torch.randn(20, layer.in_features)
    before = layer(x[:4])
    layer.weight.data = torch.zeros_like(layer.weight)
    assert torch.equal(layer(x[:4]), before)
    assert not layer(x).any()
    with full_weights(model):
        assert not layer(x[:4]).any()
    assert torch.equal(layer(x[:4]), before)


def wide(seed: int = 0) -> PreTrainedModel:
    """Sizes of which the kernel's blocks are full, so that layers can be joined; with biases."""
    sizes = {"hidden_size": 128, "intermediate_size": 192, "num_attention_heads": 2, "num_key_value_heads": 1}
    return make(Qwen2Config(**{**COMMON, **sizes}), seed)


@pytest.mark.parametrize("rows", [1, 5, 16])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-6), (torch.bfloat16, 2e-2)])
def test_layers_with_one_input_are_joined(rows: int, dtype: torch.dtype, tolerance: float) -> None:
    model = wide().to(dtype)
    weights = random_weights(model)
    attention = model.get_submodule("model.layers.1.self_attn")
    names = ("q_proj", "k_proj", "v_proj")
    for name in names:  # transformers begins with biases of 0
        nn.init.normal_(attention.get_submodule(name).bias)
    key = "model.layers.1.self_attn.{}.weight.{}"
    alone = {
        name: FourBitLinear(
            attention.get_submodule(name), (weights[key.format(name, "codes")], weights[key.format(name, "scales")])
        )
        for name in names
    }
    assert use_four_bit(model, weights)
    layers = {name: attention.get_submodule(name) for name in names}
    assert len({layer.joined for layer in layers.values()}) == 1
    x = torch.randn(1, rows, 128, generator=torch.Generator().manual_seed(1)).to(dtype)
    for order in (names, names[::-1]):
        for name in order:
            torch.testing.assert_close(layers[name](x), alone[name](x), rtol=tolerance, atol=tolerance)
    before = layers["k_proj"](x).clone()
    x += 1  # the same tensor with other values, of which this part is asked for again
    torch.testing.assert_close(layers["k_proj"](x), alone["k_proj"](x), rtol=tolerance, atol=tolerance)
    assert (layers["k_proj"](x) - before).abs().max() > 0.1
    with full_weights(model):
        torch.testing.assert_close(layers["q_proj"](x), alone["q_proj"](x), rtol=5e-2, atol=5e-2)


@grid(drafter=("none", "ngram", "self", "blend", "random"), made=(tiny, wide))
def test_the_same_tokens_as_generate(drafter: str, made: Callable[[], PreTrainedModel]) -> None:
    """The judge reads full weights; the engine reads codes for its trees, full weights for the prompt."""
    check_tokens(drafter, made)


def test_a_head_drafts_for_packed_weights() -> None:
    check_tokens("eagle3", tiny)


def check_tokens(drafter: str, made: Callable[[], PreTrainedModel]) -> None:
    judge, model = made(), made()
    random_weights(judge)
    assert use_four_bit(model, random_weights(model))
    wanted = generate(judge, prompt(), NEW)
    target = Target(LanguageModel(model))
    retrieval = small("retrieval")
    assert run(target, DRAFTERS[drafter](target, retrieval), prompt(), retrieval)[0] == wanted


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_rounded_draft_is_nearly_the_same(dtype: torch.dtype) -> None:
    head = tiny_head("eagle3").to(dtype)
    x = torch.randn(4, head.fc.in_features, generator=torch.Generator().manual_seed(0)).to(dtype)
    many = torch.cat([x] * 8)
    before, weight = head.fc(x), head.fc.weight.clone()
    round_to_four_bit(head)
    assert isinstance(head.fc, FourBitLinear)
    difference = (head.fc(x) - before).norm() / before.norm()
    assert 0.01 < difference < 0.12
    assert torch.equal(head.fc.weight, weight)
    torch.testing.assert_close(head.fc(many)[:4], before, rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("drafter", ["eagle3", "eagle1", "blend-eagle"])
def test_a_rounded_draft_changes_no_token(drafter: str) -> None:
    wanted = by_generate(NEW)
    target, retrieval = Target(LanguageModel(tiny())), small("retrieval")
    made = DRAFTERS[drafter](target, retrieval)
    for source in getattr(made, "sources", [made]):
        if hasattr(source, "head"):
            round_to_four_bit(source.head)
    assert run(target, made, prompt(), retrieval)[0] == wanted


def test_weights_that_do_not_fit_are_refused() -> None:
    model = tiny()
    weights = random_weights(model)
    with pytest.raises(ValueError, match="not a linear layer"):
        use_four_bit(model, {"model.norm.weight.codes": torch.zeros(1, 1), "model.norm.weight.scales": torch.zeros(1)})
    name = next(name for name in weights if name.endswith("down_proj.weight.codes"))
    with pytest.raises(ValueError, match="packed"):
        use_four_bit(model, {**weights, name: weights[name][:, :-1]})


def test_groups_of_sixteen_stay_unpacked_without_the_native_library() -> None:
    model, name = tiny(), "model.layers.0.mlp.down_proj"
    layer = model.get_submodule(name)
    parts, _ = halves(layer.out_features, layer.in_features, group=16)
    weights = {f"{name}.weight{low}.codes": codes for low, (codes, _) in zip(("", ".low"), parts, strict=True)}
    weights |= {f"{name}.weight{low}.scales": scales for low, (_, scales) in zip(("", ".low"), parts, strict=True)}
    assert use_four_bit(model, random_weights(model) | weights)
    assert model.get_submodule(name) is layer
    assert isinstance(model.get_submodule("model.layers.1.mlp.down_proj"), FourBitLinear)


def test_float16_models_stay_unpacked() -> None:
    model = tiny().half()
    assert not use_four_bit(model, random_weights(model))
    assert not any(isinstance(module, FourBitLinear) for module in model.modules())
