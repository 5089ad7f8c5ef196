"""Linear layers that read four bits a weight where few rows ask: decoding is bound by how much must be read.

One token's product with a matrix reads the matrix once and does next to nothing with it; at 4 bits it is read in about
a quarter of the time. For many rows, a prompt's, the arithmetic counts, and the full weights of the same values are as
fast. Both stand for the same numbers (see `models/four_bit.py`), so a text does not depend on which of them was read
but for rounding.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

GROUP = 32
_FEW = 16  # rows; about here, two cores of a processor with bfloat16 products are as fast with the full weights
_FEW_OF_EIGHT = 4  # of eight bits, in two halves
_ROWS = 16  # what the kernel wants the number of rows to be a multiple of
_BLOCK = 64  # rows that are packed together, at most: only whole blocks of several matrices can be joined
_KERNEL = "_weight_int4pack_mm_for_cpu"
_SIBLINGS = (("q_proj", "k_proj", "v_proj"), ("gate_proj", "up_proj"))  # as transformers' models call them


class FourBitLinear(nn.Linear):
    """A linear layer with a second, packed copy of its weights. `weight` [rows, columns] stays what it was."""

    def __init__(self, stock: nn.Linear, *parts: tuple[Tensor, Tensor], keep: bool = False) -> None:
        """The weight is the sum of `parts`, one or two, each of codes and scales, or nearly so: `keep` what it is.

        Codes [rows, columns / 2] uint8, the lower column's in the lower half; scales [rows, columns / 32, 2].
        """
        nn.Module.__init__(self)
        self.in_features, self.out_features = stock.in_features, stock.out_features
        self.weight, self.bias = stock.weight, stock.bias
        self.limit = _FEW if len(parts) == 1 else _FEW_OF_EIGHT
        self.few = self.limit
        unpacked = [torch.stack((codes & 15, codes >> 4), -1).flatten(1) for codes, _ in parts]
        if self.weight.dtype != torch.bfloat16 and not keep:
            full = sum(_full(codes, scales) for codes, (_, scales) in zip(unpacked, parts, strict=True))
            self.weight = nn.Parameter(torch.as_tensor(full).to(self.weight.dtype), requires_grad=False)
        self.parts = nn.ModuleList(
            Packed(
                torch.ops.aten._convert_weight_to_int4pack_for_cpu(codes.int(), 1),
                scales.to(self.weight.dtype).transpose(0, 1).contiguous(),
            )
            for codes, (_, scales) in zip(unpacked, parts, strict=True)
        )
        self.together: Together | None = None
        """Computes this layer and its siblings, of which `place` is this one."""
        self.place = 0

    def forward(self, x: Tensor) -> Tensor:
        """x [.., columns] -> [.., rows]."""
        if x.numel() > self.few * self.in_features:
            return linear(x, self.weight, self.bias)
        if self.together is not None:
            out = self.together.part(x, self.place)
            return out if self.bias is None else out + self.bias
        rows = x.reshape(-1, self.in_features)
        out = self.bias
        for packed in self.parts:
            part = packed(rows)
            out = part if out is None else out + part
        assert out is not None
        return out.reshape(*x.shape[:-1], self.out_features)


class Packed(nn.Module):
    """A matrix of four bits a weight as the kernel wants it: blocks of rows; scales [columns / 32, rows, 2]."""

    codes: Tensor
    scales: Tensor

    def __init__(self, codes: Tensor, scales: Tensor) -> None:
        super().__init__()
        self.register_buffer("codes", codes, persistent=False)  # a module's, so that a program can be given them
        self.register_buffer("scales", scales, persistent=False)

    def forward(self, rows: Tensor) -> Tensor:
        """Rows [n, columns] -> [n, rows]."""
        out: Tensor = torch.ops.aten._weight_int4pack_mm_for_cpu(rows, self.codes, GROUP, self.scales)
        return out


class Together(nn.Module):
    """Layers that read the same input, as one product: queries, keys and values; gate and up.

    The model asks each of them in turn, with the very same tensor. The first that is asked computes them all, and a
    part is given once: when all have theirs, nothing is kept. Until then the tensor must stay as it is.
    """

    def __init__(self, layers: Sequence[FourBitLinear]) -> None:
        """The layers have one part each, which is the shared matrix's from now on."""
        super().__init__()
        self._sizes = [layer.out_features for layer in layers]
        codes, scales = zip(*(layer.parts[0].buffers() for layer in layers), strict=True)
        self._matrix = Packed(torch.cat(codes), torch.cat(scales, 1))
        self._input: Tensor | None = None
        self._computed: list[Tensor | None] = []
        for place, layer in enumerate(layers):
            layer.together, layer.place, layer.parts = self, place, nn.ModuleList()

    def part(self, x: Tensor, place: int) -> Tensor:
        """x [.., columns] -> [.., rows of the layer at `place`]."""
        if x is not self._input or self._computed[place] is None:
            out = self._matrix(x.reshape(-1, x.shape[-1]))
            self._input = x
            self._computed = list(out.reshape(*x.shape[:-1], -1).split(self._sizes, -1))
        part, self._computed[place] = self._computed[place], None
        if not any(other is not None for other in self._computed):
            self._input = None
        assert part is not None
        return part


def use_four_bit(model: nn.Module, weights: Mapping[str, Tensor]) -> bool:
    """Let the model's linear layers read `weights`, as `models/four_bit.py` names them; whether this machine can."""
    if not _is_able(model):
        return False
    suffix = ".weight.codes"
    for name in [name.removesuffix(suffix) for name in weights if name.endswith(suffix)]:
        whole, low = f"{name}.weight", f"{name}.weight.low"
        parts = [
            (weights[f"{key}.codes"], weights[f"{key}.scales"]) for key in (whole, low) if f"{key}.codes" in weights
        ]
        stock = model.get_submodule(name)
        shape = (getattr(stock, "out_features", 0), getattr(stock, "in_features", 0) // 2)
        if not isinstance(stock, nn.Linear) or any(codes.shape != shape for codes, _ in parts):
            raise ValueError(f"{name} is no linear layer of {tuple(parts[0][0].shape)} packed weights")
        model.set_submodule(name, FourBitLinear(stock, *parts))
    _join(model)
    return True


def round_to_four_bit(model: nn.Module) -> None:
    """Let few rows read the model's weights rounded to four bits: for drafts, which may be wrong."""
    if not _is_able(model):
        return
    layers = {name: module for name, module in model.named_modules() if type(module) is nn.Linear}
    for name, stock in layers.items():
        if stock.in_features % GROUP == 0 and stock.out_features % _ROWS == 0:
            model.set_submodule(name, FourBitLinear(stock, _rounded(stock.weight), keep=True))
    _join(model)


def _join(model: nn.Module) -> None:
    for module in list(model.modules()):
        for names in _SIBLINGS:
            layers = [getattr(module, name, None) for name in names]
            if all(_can_join(layer) for layer in layers):
                Together(layers)  # type: ignore[arg-type]


def _can_join(layer: object) -> bool:
    return isinstance(layer, FourBitLinear) and len(layer.parts) == 1 and layer.out_features % _BLOCK == 0


def _is_able(model: nn.Module) -> bool:
    parameter = next(model.parameters())
    able = torch.backends.cpu.get_cpu_capability() in ("AVX2", "AVX512") and hasattr(torch.ops.aten, _KERNEL)
    return able and parameter.device.type == "cpu" and parameter.dtype in (torch.bfloat16, torch.float32)


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
            layer.few = layer.limit


def _full(codes: Tensor, scales: Tensor) -> Tensor:
    grouped = codes.reshape(*scales.shape[:2], GROUP).float() - 8
    return (grouped * scales[..., :1].float() + scales[..., 1:].float()).flatten(1)


@torch.no_grad()
def _rounded(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Codes and scales, as `FourBitLinear` takes them, of the nearest weights that four bits can say."""
    groups = weight.float().reshape(len(weight), -1, GROUP)
    low, high = groups.aminmax(dim=-1, keepdim=True)
    scale = ((high - low) / 15).bfloat16().float().clamp(min=1e-8)
    zero = (low + 8 * scale).bfloat16().float()
    codes = ((groups - zero) / scale).round_().add_(8).clamp_(0, 15).to(torch.uint8).reshape(weight.shape)
    return codes[:, ::2] | codes[:, 1::2] << 4, torch.cat((scale, zero), -1)
