"""Packed weights, and full weights of the same values, give the same numbers."""

from __future__ import annotations

import pytest
import torch

from specextend_cli.engine.packed import PackedEmbedding, PackedLinear, can_pack, full_weights, round_to_four_bit
from tests.engine.tiny_heads import tiny_head
from tests.engine.tiny_models import tiny
from tests.helpers.packed_weights import SMALL, four_bit, matrix

pytestmark = [
    pytest.mark.usefixtures("kernels"),
    pytest.mark.parametrize("kernels", ["ours"], indirect=True, scope="module"),
]


def test_full_weights_are_there_while_they_are_asked_for() -> None:
    model = four_bit(torch.bfloat16)
    layer = model.get_submodule("model.layers.0.mlp.down_proj")
    assert isinstance(layer, PackedLinear)
    x = torch.randn(4, layer.in_features).bfloat16()
    before = layer(x)
    assert not list(layer.parameters())
    with full_weights(model):
        assert torch.equal(layer(x), x @ layer.weight.T)
        assert layer.weight is layer.weight
        assert not torch.equal(layer(x), before)  # the kernel rounds to eight bits
    assert torch.equal(layer(x), before)
    assert not list(layer.parameters())


@pytest.mark.parametrize("kind", SMALL)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_rows_of_an_embedding(kind: str, dtype: torch.dtype) -> None:
    tiles, full = matrix(48, 96, SMALL[kind])
    embedding = PackedEmbedding(tiles, dtype, torch.tensor(1.5))
    tokens = torch.tensor([[0, 47, 17], [16, 15, 17]])
    assert torch.equal(embedding(tokens), embedding.weight[tokens] * 1.5)
    torch.testing.assert_close(embedding(tokens).double(), 1.5 * full[tokens], rtol=1e-2, atol=1e-2)
    for wrong in (-1, 48):
        with pytest.raises(IndexError, match="vocabulary of 48"):
            embedding(torch.tensor([1, wrong]))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_rounded_draft_is_nearly_the_same(dtype: torch.dtype) -> None:
    head = tiny_head("eagle3").to(dtype)
    x = torch.randn(4, head.fc.in_features, generator=torch.Generator().manual_seed(0)).to(dtype)
    many = torch.cat([x] * 9)
    before, weight = head.fc(x), head.fc.weight.clone()
    round_to_four_bit(head)
    assert isinstance(head.fc, PackedLinear)
    difference = (head.fc(x) - before).norm() / before.norm()
    assert 0.01 < difference < 0.12
    assert torch.equal(head.fc.weight, weight)
    torch.testing.assert_close(head.fc(many)[:4], before, rtol=2e-2, atol=2e-2)


def test_a_draft_head_does_not_cast_what_it_shares() -> None:
    tiles, _ = matrix(48, 96, SMALL["Q8_0"])
    shared = torch.nn.ModuleList([PackedEmbedding(tiles, torch.bfloat16)])
    shared.to(torch.float32)
    assert tiles.scales.dtype == torch.bfloat16
    assert shared[0](torch.tensor([3])).dtype == torch.bfloat16


def test_scales_that_are_not_finite() -> None:
    tiles, _ = matrix(16, 32, SMALL["Q8_0"])
    blocks = torch.zeros(16, 34, dtype=torch.uint8)
    tiles.set_blocks(SMALL["Q8_0"].value, blocks)
    blocks[7, 1] = 0x7C  # infinity in float16
    with pytest.raises(ValueError, match="not finite"):
        tiles.set_blocks(SMALL["Q8_0"].value, blocks)


def test_where_weights_can_be_packed() -> None:
    assert can_pack(torch.device("cpu"), torch.bfloat16)
    assert not can_pack(torch.device("cpu"), torch.float16)
    assert not can_pack(torch.device("meta"), torch.bfloat16)
    model = tiny().half()
    round_to_four_bit(model)
    assert not any(isinstance(module, PackedLinear) for module in model.modules())
