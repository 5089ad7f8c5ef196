"""Four bits a weight, and the full weights of the same values, give the same numbers and the same tokens."""

from __future__ import annotations

import pytest
import torch

from specextend_cli.engine.four_bit import FourBitLinear, full_weights, round_to_four_bit, use_four_bit
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.engine.target import Target
from tests.engine.tiny_heads import tiny_head
from tests.engine.tiny_models import generate, prompt, tiny
from tests.helpers.decoding import DRAFTERS, NEW, run, small
from tests.helpers.four_bit_weights import four_bit, random_weights

pytestmark = [
    pytest.mark.usefixtures("kernels"),
    pytest.mark.parametrize("kernels", ["ours"], indirect=True, scope="module"),
]


@pytest.mark.parametrize("rows", [1, 3, 32, 33])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.bfloat16, 2e-2)])
def test_packed_and_full_weights_agree(rows: int, dtype: torch.dtype, tolerance: float) -> None:
    layer = four_bit(dtype).get_submodule("model.layers.0.mlp.down_proj")
    assert isinstance(layer, FourBitLinear)
    x = torch.randn(1, rows, layer.in_features, generator=torch.Generator().manual_seed(1)).to(dtype)
    expected = x.double() @ layer.weight.double().T
    assert (layer(x).double() - expected).norm() < tolerance * expected.norm()


def test_few_rows_read_packed_weights() -> None:
    """With other full weights, few rows do not notice; many do, and all while the full weights are asked for."""
    model = four_bit()
    layer = model.get_submodule("model.layers.0.mlp.down_proj")
    x = torch.randn(40, layer.in_features)
    before = layer(x[:4])
    layer.weight.data = torch.zeros_like(layer.weight)
    assert torch.equal(layer(x[:4]), before)
    assert not layer(x).any()
    with full_weights(model):
        assert not layer(x[:4]).any()
    assert torch.equal(layer(x[:4]), before)


@pytest.mark.parametrize("drafter", ["none", "ngram", "self", "blend", "random", "eagle3"])
def test_the_same_tokens_as_generate(drafter: str) -> None:
    """The judge reads full weights; the engine reads codes for its trees, full weights for the prompt."""
    judge, model = tiny(), tiny()
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
    many = torch.cat([x] * 9)
    before, weight = head.fc(x), head.fc.weight.clone()
    round_to_four_bit(head)
    assert isinstance(head.fc, FourBitLinear)
    difference = (head.fc(x) - before).norm() / before.norm()
    assert 0.01 < difference < 0.12
    assert torch.equal(head.fc.weight, weight)
    torch.testing.assert_close(head.fc(many)[:4], before, rtol=2e-2, atol=2e-2)


def test_weights_that_do_not_fit_are_refused() -> None:
    model = tiny()
    weights = random_weights(model)
    with pytest.raises(ValueError, match="not a linear layer"):
        use_four_bit(model, {"model.norm.weight.codes": torch.zeros(1, 1), "model.norm.weight.scales": torch.zeros(1)})
    name = next(name for name in weights if name.endswith("down_proj.weight.codes"))
    with pytest.raises(ValueError, match="packed"):
        use_four_bit(model, {**weights, name: weights[name][:, :-1]})


def test_float16_models_stay_unpacked() -> None:
    model = tiny().half()
    assert not use_four_bit(model, random_weights(model))
    assert not any(isinstance(module, FourBitLinear) for module in model.modules())
