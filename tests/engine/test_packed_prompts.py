"""Prompts read by packed weights: what few rows at a time compute, in whatever pieces and by how many threads."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import pytest
import torch
from torch import Tensor

from specextend_cli.engine.lm import LanguageModel
from specextend_cli.engine.native.shared_library import instructions
from specextend_cli.engine.native_runner import NativeRunner, use_natively
from specextend_cli.engine.threads import on_threads
from tests.engine.test_native_model import ARCHITECTURES, LONG, of
from tests.helpers.packed_weights import SMALL, broad, four_bit, pack, unpack

pytestmark = pytest.mark.parametrize("kernels", ["ours", "avx2"], indirect=True, scope="module")

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
        with on_threads(threads):
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
