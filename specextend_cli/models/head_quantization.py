"""Weights of eight bits in a head's checkpoint, multiplied out once at load.

compressed-tensors, ModelOpt, and DeepSeek's and Qwen's FP8 keep a matrix as numbers of eight bits and scales beside it.
A draft head is small: it computes with its full weights, which are those of the file, rounded once to the target's
number format. Scales of activations and of cached keys are left out, because neither is quantized here.
"""

from __future__ import annotations

import re
from typing import Any

import torch
from torch import Tensor

EIGHT_BITS = (torch.int8, torch.float8_e4m3fn, torch.float8_e5m2)
_IGNORED = re.compile(r"(^|[._])(input|output|[qkv]|kv_cache)_(global_)?(scale|zero_point)$")
_SCALES = ("weight_scale", "weight_scale_inv")  # both are factors: "inv" is that of DeepSeek's format
_PACKED = re.compile(
    r"\.(weight_packed|qweight|qzeros|g_idx|SCB|weight_scale_2|weight_global_scale"
    r"|weight\.(absmax|quant_map|nested_absmax|quant_state\S*))$"
)


class PackedError(ValueError):
    """Weights in a format that is not read here."""


def multiply_out(tensors: dict[str, Tensor], settings: Any, dtype: torch.dtype) -> dict[str, Tensor]:
    """`tensors` by name, with weights of eight bits as numbers of `dtype`; `settings` is `quantization_config`.

    A matrix [rows, columns] has one scale, one for each row, or one for each group of columns of a row or block of the
    size in `settings`; integers may have zero points of the same shape. PackedError: fewer bits, or another format.
    ValueError: scales that are missing, or do not fit.
    """
    kept = {name: tensor for name, tensor in tensors.items() if not _IGNORED.search(name)}
    if packed := next((name for name in kept if _PACKED.search(name)), None):
        method = settings.get("quant_method") if isinstance(settings, dict) else None
        raise PackedError(
            f"its {packed} is packed{f' by {method!s:.30}' if method else ''}; weights of eight bits are read"
        )
    block = _block(settings)
    for name in [name for name, tensor in kept.items() if name.endswith(".weight") and tensor.dtype in EIGHT_BITS]:
        stem = name.removesuffix("weight")
        scale = next((kept.pop(stem + key) for key in _SCALES if stem + key in kept), None)
        zero = kept.pop(f"{stem}weight_zero_point", None)
        if scale is None:
            raise ValueError(f"its {name} is of {kept[name].dtype} numbers and has no weight_scale")
        kept[name] = _full(name, kept[name], scale, zero, block).to(dtype)
    return kept


def _full(name: str, codes: Tensor, scale: Tensor, zero: Tensor | None, block: tuple[int, int] | None) -> Tensor:
    """The numbers, in float32."""
    if codes.ndim != 2 or not scale.is_floating_point() or not bool(scale.float().isfinite().all()):
        raise ValueError(f"its {name} is no matrix with scales that are finite numbers")
    numbers = codes.float()
    if zero is not None:
        if codes.dtype != torch.int8 or zero.shape != scale.shape:
            raise ValueError(f"its {name} has zero points that do not belong to its scales")
        numbers -= _spread(name, zero.float(), codes.shape, block)
    return numbers * _spread(name, scale.float(), codes.shape, block)


def _spread(name: str, scale: Tensor, shape: torch.Size, block: tuple[int, int] | None) -> Tensor:
    """`scale` as [rows, columns], or as what broadcasts to it."""
    rows, columns = shape
    if scale.numel() == 1:
        return scale.reshape(1, 1)
    if scale.shape in ((rows,), (rows, 1)):
        return scale.reshape(rows, 1)
    if scale.ndim == 2 and len(scale) == rows and columns % scale.shape[1] == 0:
        return scale.repeat_interleave(columns // scale.shape[1], 1)
    if block is not None and scale.shape == (-(-rows // block[0]), -(-columns // block[1])):
        return scale.repeat_interleave(block[0], 0)[:rows].repeat_interleave(block[1], 1)[:, :columns]
    raise ValueError(f"its {name} is {list(shape)} and has scales {list(scale.shape)}, which do not fit")


def _block(settings: Any) -> tuple[int, int] | None:
    """The size of the blocks that have one scale each; None where no valid one is named."""
    found = settings.get("weight_block_size") if isinstance(settings, dict) else None
    groups = settings.get("config_groups") if isinstance(settings, dict) else None
    for group in groups.values() if isinstance(groups, dict) else ():
        weights = group.get("weights") if isinstance(group, dict) else None
        found = found or (weights.get("block_structure") if isinstance(weights, dict) else None)
    if not isinstance(found, list) or len(found) != 2 or not all(type(size) is int and size > 0 for size in found):
        return None
    return found[0], found[1]
