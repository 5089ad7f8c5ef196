"""What a step must read is counted from the model's own tensors, and compared with what the tensors weigh."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from transformers import LlamaConfig

from specextend_cli.bench.roofline import Roofline, Work, _bytes, measure, work
from specextend_cli.engine.four_bit import GROUP, FourBitLinear, round_to_four_bit
from specextend_cli.engine.lm import LanguageModel
from tests.engine.tiny_models import COMMON, make, tiny


def test_what_a_step_reads_and_multiplies() -> None:
    model = tiny()
    lm = LanguageModel(model)
    least = work(lm, 100, 3)
    read = [p for name, p in model.named_parameters() if "embed" not in name]
    assert least.weights == sum(p.nbytes for p in read)
    cache = lm.new_cache(100)
    assert least.rows == cache.buffer[:, :, :, :100].nbytes
    heads, head_dim = lm.config.num_attention_heads, cache.buffer.shape[4]
    products = sum(p.numel() for p in read if p.dim() == 2)
    attention = 2 * lm.layers * heads * head_dim * 100
    assert least.operations == 3 * 2 * (products + attention)


def test_packed_weights_count_as_they_are_stored() -> None:
    model = make(LlamaConfig(**{**COMMON, "hidden_size": 128, "intermediate_size": 128, "vocab_size": 128})).bfloat16()
    full = work(LanguageModel(model), 10, 1).weights
    round_to_four_bit(model)
    layers = [m for m in model.modules() if isinstance(m, FourBitLinear)]
    if not layers:
        pytest.skip("this processor reads no packed weights")
    norms = sum(p.nbytes for p in model.parameters() if p.dim() == 1)
    weights = sum(m.in_features * m.out_features for m in layers)
    stored = weights // 2 + weights // GROUP * 4  # half a byte each, and two numbers of two bytes a group
    assert work(LanguageModel(model), 10, 1).weights == stored + norms < full / 3


def test_eight_bits_are_counted_once() -> None:
    layer = nn.Linear(64, 32, bias=False)
    part = (torch.zeros(32, 32, dtype=torch.uint8), torch.zeros(32, 2, 2))
    four, eight = (sum(map(_bytes, FourBitLinear(layer, *[part] * parts).modules())) for parts in (1, 2))
    assert four < eight <= 2 * four


def test_the_floor_is_the_longer_of_reading_and_multiplying() -> None:
    machine = Roofline(bandwidth=100.0, arithmetic=1000.0)
    assert Work(weights=300, rows=200, operations=1000).seconds(machine) == 5.0
    assert Work(weights=300, rows=200, operations=8000).seconds(machine) == 8.0


def test_ceilings_are_measured() -> None:
    found = measure(torch.device("cpu"), torch.float32, scale=0.01)
    assert all(value > 1e6 for value in found)
