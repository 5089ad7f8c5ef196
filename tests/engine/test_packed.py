"""Packed weights, and full weights of the same values, give the same numbers, in whatever pieces prompts are read."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from unittest.mock import patch

import pytest
import torch
from torch import Tensor

from specextend_cli.engine.lm import LanguageModel
from specextend_cli.engine.native.shared_library import instructions
from specextend_cli.engine.native_runner import NativeRunner, use_natively
from specextend_cli.engine.packed import PackedEmbedding, PackedLinear, can_pack, full_weights, round_to_four_bit
from tests.engine.test_native_model import ARCHITECTURES, LONG, of
from tests.engine.tiny_heads import tiny_head
from tests.engine.tiny_models import tiny
from tests.helpers.packed_weights import SMALL, broad, four_bit, matrix, pack, unpack

pytestmark = [
    pytest.mark.usefixtures("kernels"),
    pytest.mark.parametrize("kernels", ["ours", "avx2"], indirect=True, scope="module"),
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


TOKENS = torch.tensor((LONG * 5)[:391])


def packed(lm: LanguageModel) -> LanguageModel:
    """A model that reads prompts by its packed weights, whatever this processor is."""
    use_natively(lm, exact=False)
    assert isinstance(lm.runner, NativeRunner)
    return lm


def read(lm: LanguageModel, pieces: Sequence[int], threads: int = 3) -> list[Tensor]:
    """Logits, states and queries of `TOKENS`, and the cache behind them."""
    cache, found = lm.new_cache(len(TOKENS)), []
    for piece in torch.arange(len(TOKENS)).split(pieces):
        asked = {"record": (0, lm.layers - 1), "feature_layers": (0, 1, lm.layers)}
        with patch.object(torch, "get_num_threads", return_value=threads):  # which the library asks
            out = lm.forward(TOKENS[piece], piece, cache, **asked)
        cache.commit()
        assert out.features is not None
        recorded = torch.cat([queries.queries for queries in out.queries.values()], -1)
        found.append((out.logits, out.features, recorded.movedim(1, 0)))
    return [*map(torch.cat, zip(*found, strict=True)), *cache.rows(0, cache.length)]


def distances(some: list[Tensor], others: list[Tensor]) -> list[float]:
    pairs = zip(some, others, strict=True)
    return [float((one.float() - other.float()).norm() / other.float().norm()) for one, other in pairs]


FEW = [32] * 12 + [7]
ODD = [33, 258, 100]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_a_prompt_is_read_as_few_rows_are(name: str, dtype: torch.dtype, kernels: str) -> None:
    """AMX rounds to bfloat16 where few rows are rounded to eight bits: it is no farther from float32 than the model."""
    lm = LanguageModel(four_bit(dtype, partial(of, name)))
    own = read(lm, ODD)
    found = read(packed(lm), ODD)
    if dtype == torch.bfloat16 and kernels == "ours" and instructions() == "avx512-amx":
        exact = read(LanguageModel(unpack(four_bit(dtype, partial(of, name))).float()), ODD)
        pairs = zip(distances(found, exact), distances(own, exact), strict=True)
        assert all(ours < 1.2 * theirs < 0.1 for ours, theirs in pairs)
    else:
        assert max(distances(found, read(lm, FEW))) < 0.03


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_neither_pieces_nor_threads_change_a_bit(dtype: torch.dtype, kernels: str) -> None:
    lm = packed(LanguageModel(four_bit(dtype, broad)))
    expected = read(lm, ODD)
    for pieces, threads in ((ODD, 1), ([391], 2), ([391], 7), ([40, 311, 40], 2)):
        for one, other in zip(read(lm, pieces, threads), expected, strict=True):
            assert torch.equal(one, other)


@pytest.mark.parametrize("kind", ["Q8_0", "Q5_1"])
def test_layers_of_eight_bits(kind: str, kernels: str) -> None:
    lm = packed(LanguageModel(pack(broad(), lambda name: SMALL[kind if "v_proj" in name else "Q4_1"])))
    assert max(distances(read(lm, ODD), read(lm, FEW))) < 0.03
