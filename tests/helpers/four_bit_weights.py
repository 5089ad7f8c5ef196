"""Random weights of four and eight bits, what they mean, and tiny models that have them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel, Qwen2Config

from specextend_cli.engine.four_bit import use_four_bit
from tests.engine.tiny_models import COMMON, make, tiny


def random_weights(model: nn.Module, seed: int = 0) -> dict[str, Tensor]:
    """Codes and scales for every projection of a model's layers, and its full weights set to what they mean."""
    generator, weights = torch.Generator().manual_seed(seed), {}
    for name, module in model.named_modules():
        if isinstance(module, nn.Linear) and ".layers." in name:
            rows, columns = module.weight.shape
            codes = torch.randint(0, 256, (rows, columns // 2), generator=generator, dtype=torch.uint8)
            scales = torch.randn(rows, columns // 32, 2, generator=generator).mul_(0.05).bfloat16()
            scales[..., 1] *= 0.2
            weights |= {f"{name}.weight.codes": codes, f"{name}.weight.scales": scales}
            unpacked = torch.stack((codes & 15, codes >> 4), -1).reshape(rows, -1, 32).float() - 8
            full = (unpacked * scales[..., :1].float() + scales[..., 1:].float()).reshape(rows, columns)
            module.weight.data = full.to(module.weight.dtype)
    return weights


def broad() -> PreTrainedModel:
    """Heads as broad as our attention kernel wants them, states as the heads that draft know them."""
    return make(Qwen2Config(**{**COMMON, "num_attention_heads": 2, "num_key_value_heads": 1}), 0)


def four_bit(dtype: torch.dtype = torch.float32, made: Callable[[], PreTrainedModel] = tiny) -> PreTrainedModel:
    model = made().to(dtype)
    assert use_four_bit(model, random_weights(model))
    return model


Part: TypeAlias = tuple[Tensor, Tensor]


def matrix(rows: int, columns: int, seed: int = 0, scales: Tensor | None = None) -> tuple[list[Part], Tensor]:
    """Codes and scales, and what they mean."""
    generator = torch.Generator().manual_seed(seed)
    codes = torch.randint(0, 256, (rows, columns // 2), generator=generator, dtype=torch.uint8)
    if scales is None:
        scales = torch.randn(rows, columns // 32, 2, generator=generator).bfloat16()
    unpacked = torch.stack((codes & 15, codes >> 4), -1).reshape(*scales.shape[:2], -1).double() - 8
    return [(codes, scales)], (unpacked * scales[..., :1] + scales[..., 1:]).flatten(1)


def halves(rows: int, columns: int, size: float = 1.0, group: int = 32) -> tuple[list[Part], Tensor]:
    """Upper and lower halves of eight bits, with a scale for `group` columns, and what they mean."""
    scale = torch.randn(rows, columns // group, generator=torch.Generator().manual_seed(2)).mul_(size).bfloat16()
    upper, first = matrix(rows, columns, 0, torch.stack((16 * scale, 0 * scale), -1))
    lower, second = matrix(rows, columns, 1, torch.stack((scale, 8 * scale), -1))
    return upper + lower, first + second
