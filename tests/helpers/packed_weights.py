"""Random weights of four and eight bits, what they mean, and tiny models that have them."""

from __future__ import annotations

from collections.abc import Callable

import gguf
import torch
from gguf import GGMLQuantizationType as Kind
from torch import Tensor, nn
from transformers import PreTrainedModel, Qwen2Config

from specextend_cli.engine.packed import KIND_OF_BLOCKS, PackedLinear, Tiles
from tests.engine.tiny_models import COMMON, make, tiny
from tests.helpers.gguf_files import quantized

SMALL = {kind: Kind[kind] for kind in KIND_OF_BLOCKS if not kind.endswith("_K")}
"""Kinds whose blocks have 32 numbers: tiny models have no rows of 256."""


def matrix(rows: int, columns: int, kind: Kind) -> tuple[Tiles, Tensor]:
    """A random matrix of that kind, and what its blocks mean, float64."""
    return packed(torch.randn(rows, columns, generator=torch.Generator().manual_seed(0)), kind)


def packed(weight: Tensor, kind: Kind) -> tuple[Tiles, Tensor]:
    """A matrix rounded to that kind (of some kinds another one, with random codes), and what it means, float64."""
    blocks = quantized(weight.float().numpy(), kind)
    tiles = Tiles(KIND_OF_BLOCKS[kind.name], *weight.shape)
    tiles.set_blocks(kind.value, torch.from_numpy(blocks))
    return tiles, torch.from_numpy(gguf.dequantize(blocks, kind)).double()


def pack(model: PreTrainedModel, kind_of: Callable[[str], Kind] = lambda name: Kind.Q4_1) -> PreTrainedModel:
    """Every projection of a model's layers, of `kind_of` its name."""
    for name, module in list(model.named_modules()):
        if type(module) is nn.Linear and ".layers." in name:
            tiles, _ = packed(module.weight.detach(), kind_of(name))
            model.set_submodule(name, PackedLinear(tiles, module.bias, module.weight.dtype))
    return model


def unpack(model: PreTrainedModel) -> PreTrainedModel:
    """The model with plain layers of the same weights."""
    for name, module in list(model.named_modules()):
        if isinstance(module, PackedLinear):
            plain = nn.Linear(module.in_features, module.out_features, bias=module.bias is not None)
            plain.weight, plain.bias = nn.Parameter(module.weight, requires_grad=False), module.bias
            model.set_submodule(name, plain)
    return model


def broad() -> PreTrainedModel:
    """Heads as broad as our attention kernel wants them, states as the heads that draft know them."""
    return make(Qwen2Config(**{**COMMON, "num_attention_heads": 2, "num_key_value_heads": 1}), 0)


def four_bit(dtype: torch.dtype = torch.float32, made: Callable[[], PreTrainedModel] = tiny) -> PreTrainedModel:
    """A tiny model whose layers have four bits a weight."""
    return pack(made().to(dtype))
