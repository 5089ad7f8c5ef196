"""Linear layers that read four bits a weight where few rows ask: decoding is bound by how much must be read.

One token's product with a matrix reads the matrix once and does next to nothing with it; at 4 bits it is read in about
a quarter of the time. For many rows, a prompt's, the arithmetic counts, and the full weights of the same values are as
fast. Both stand for the same numbers (see `models/four_bit.py`), so a text does not depend on which of them was read
but for rounding.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

GROUP = 32
_FEW = 16  # rows; about here, two cores of a processor with bfloat16 products are as fast with the full weights
_KERNEL = "_weight_int4pack_mm_for_cpu"


class FourBitLinear(nn.Linear):
    """A linear layer with a second, packed copy of its weights. `weight` [rows, columns] stays what it was."""

    def __init__(self, stock: nn.Linear, codes: Tensor, scales: Tensor) -> None:
        """`codes` [rows, columns / 2] uint8, the lower column's in the lower half; `scales` [rows, columns / 32, 2]."""
        nn.Module.__init__(self)
        self.in_features, self.out_features = stock.in_features, stock.out_features
        self.weight, self.bias = stock.weight, stock.bias
        self.few = _FEW
        unpacked = torch.stack((codes & 15, codes >> 4), -1).flatten(1)
        if self.weight.dtype != torch.bfloat16:
            self.weight = nn.Parameter(_full(unpacked, scales).to(self.weight.dtype), requires_grad=False)
        self._packed = torch.ops.aten._convert_weight_to_int4pack_for_cpu(unpacked.int(), 1)
        self._scales = scales.to(self.weight.dtype).transpose(0, 1).contiguous()

    def forward(self, x: Tensor) -> Tensor:
        """x [.., columns] -> [.., rows]."""
        if x.numel() > self.few * self.in_features:
            return linear(x, self.weight, self.bias)
        rows = x.reshape(-1, self.in_features)
        out: Tensor = torch.ops.aten._weight_int4pack_mm_for_cpu(rows, self._packed, GROUP, self._scales)
        out = out.reshape(*x.shape[:-1], self.out_features)
        return out if self.bias is None else out + self.bias


def use_four_bit(model: nn.Module, weights: Mapping[str, Tensor]) -> bool:
    """Let the model's linear layers read `weights`, `NAME.codes` and `NAME.scales`; whether this machine can."""
    parameter = next(model.parameters())
    able = torch.backends.cpu.get_cpu_capability() in ("AVX2", "AVX512") and hasattr(torch.ops.aten, _KERNEL)
    if not able or parameter.device.type != "cpu" or parameter.dtype not in (torch.bfloat16, torch.float32):
        return False
    for name in [name.removesuffix(".weight.codes") for name in weights if name.endswith(".codes")]:
        codes, scales = (weights[f"{name}.weight.{part}"] for part in ("codes", "scales"))
        stock = model.get_submodule(name)
        if not isinstance(stock, nn.Linear) or codes.shape != (stock.out_features, stock.in_features // 2):
            raise ValueError(f"{name} is no linear layer of {tuple(codes.shape)} packed weights")
        model.set_submodule(name, FourBitLinear(stock, codes, scales))
    return True


@contextmanager
def full_weights(model: nn.Module) -> Iterator[None]:
    """The model as transformers has it: every product reads the full weights."""
    layers = [module for module in model.modules() if isinstance(module, FourBitLinear)]
    for layer in layers:
        layer.few = 0
    try:
        yield
    finally:
        for layer in layers:
            layer.few = _FEW


def _full(codes: Tensor, scales: Tensor) -> Tensor:
    grouped = codes.reshape(*scales.shape[:2], GROUP).float() - 8
    return (grouped * scales[..., :1].float() + scales[..., 1:].float()).flatten(1)
