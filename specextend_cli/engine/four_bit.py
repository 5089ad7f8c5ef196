"""Linear layers with weights of four bits for few rows: decoding is bound by memory bandwidth.

One token's product with a matrix reads every weight once; with 4 bits per weight that takes about a quarter of the
time. A prompt's many rows are bound by arithmetic: they gain where a processor multiplies bytes faster than the model's
numbers, and the whole forward is native (`native/prompt_forward.h`). Elsewhere they read the full weights. Both hold
the same values (see `models/four_bit.py`), so the output depends on the choice only by rounding: the kernel, which is
the native library's, rounds its inputs to eight bits, unless the model is in float32.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from specextend_cli.engine import native
from specextend_cli.engine.native.kernels import int4_matmul
from specextend_cli.engine.transfer import in_large_pages

GROUP = 32  # weights that share a scale and a zero; of eight bits, maybe half as many
MOST_ROWS = 32
"""Rows of an input up to which packed weights are read; for more, the full ones are."""
_ROWS = 16  # the kernel takes multiples of so many rows of a matrix
_LINE = 64  # bytes of a line of the processor's cache


class FourBitLinear(nn.Linear):
    """A linear layer with a second, packed copy of its weights beside `weight` [rows, columns]."""

    def __init__(self, stock: nn.Linear, *parts: tuple[Tensor, Tensor], keep: bool = False) -> None:
        """The weight is the sum of one or two `parts`, each codes and scales; `keep` leaves `weight` as it is.

        Codes [rows, columns / 2] uint8, the lower column's in the lower half; scales [rows, columns / 32, 2]. Two parts
        are upper and lower halves of eight bits: scale and zero are (16 * s, 0) and (s, 8 * s), for 32 columns or 16.
        """
        nn.Module.__init__(self)
        self.in_features, self.out_features = stock.in_features, stock.out_features
        self.weight, self.bias = stock.weight, stock.bias
        if self.weight.dtype != torch.bfloat16 and not keep:
            full = sum(_full(codes, scales) for codes, scales in parts)
            self.weight = nn.Parameter(torch.as_tensor(full).to(self.weight.dtype), requires_grad=False)
        self.packed = Tiles.of(parts)
        self.few = MOST_ROWS  # rows up to which packed weights are read

    def forward(self, x: Tensor) -> Tensor:
        """x [.., columns] -> [.., rows]."""
        if x.numel() > self.few * self.in_features:
            return linear(x, self.weight, self.bias)
        out: Tensor = self.packed(x.reshape(-1, self.in_features)).reshape(*x.shape[:-1], self.out_features)
        return out if self.bias is None else out + self.bias


class Tiles(nn.Module):
    """A matrix of four or eight bits a weight as the kernel takes it (`native/int4_matmul.h`): tiles of sixteen rows.

    Codes [rows / 16, columns / 8, 16 * bits] hold eight columns of every row, of eight bits the upper halves first.
    Scales [rows / 16, columns / 32, 2, 16] are scale and zero; of eight bits the scales of one or two parts of the 32
    columns, [rows / 16, columns / 32, 1 or 2, 16].
    """

    codes: Tensor
    scales: Tensor

    def __init__(self, codes: Tensor, scales: Tensor) -> None:
        super().__init__()
        self.register_buffer("codes", codes, persistent=False)
        self.register_buffer("scales", scales, persistent=False)

    @classmethod
    def of(cls, parts: Sequence[tuple[Tensor, Tensor]]) -> Tiles:
        """From `parts` as `FourBitLinear` takes them."""
        codes, scales = zip(*parts, strict=True)
        last = scales[-1].bfloat16()
        if len(parts) == 2:  # 16 * scale * (upper - 8) + scale * (lower - 8) + 8 * scale
            scale = last[..., 0].clone()
            if not torch.equal(torch.cat(scales, -1), torch.stack((16 * scale, 0 * scale, scale, 8 * scale), -1)):
                raise ValueError("the two parts are not halves of eight bits")
            last = scale.reshape(len(scale), 2 * codes[0].shape[1] // GROUP, -1)
        lanes = (one.contiguous().view(torch.int32).unflatten(0, (-1, _ROWS)) for one in codes)  # eight columns each
        tiles = torch.stack([one.transpose(1, 2) for one in lanes], 2)
        return cls(
            tiles.view(torch.uint8).flatten(2),
            last.unflatten(0, (-1, _ROWS)).permute(0, 2, 3, 1).contiguous(),
        )

    @property
    def bits(self) -> int:
        """Four or eight."""
        return self.codes.shape[2] // _ROWS

    def forward(self, rows: Tensor) -> Tensor:
        """Rows [n, columns] -> [n, rows]."""
        return int4_matmul(rows, self.codes, self.scales)


def use_four_bit(model: nn.Module, weights: Mapping[str, Tensor]) -> bool:
    """Let the model's linear layers read `weights`, named as in `models/four_bit.py`; whether this machine can."""
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
            raise ValueError(f"{name} is not a linear layer with {tuple(parts[0][0].shape)} packed weights")
        groups, least = {scales.shape[1] for _, scales in parts}, stock.in_features // GROUP
        if groups not in [{least}, {len(parts) * least}]:
            raise ValueError(f"{name} has scales of {sorted(groups)} groups")
        model.set_submodule(name, FourBitLinear(stock, *parts))
    _lay_out(model)
    return True


def round_to_four_bit(model: nn.Module) -> None:
    """Let few rows read the model's weights rounded to four bits. For draft models, whose errors change no output."""
    if not _is_able(model):
        return
    layers = {name: module for name, module in model.named_modules() if type(module) is nn.Linear}
    for name, stock in layers.items():
        if stock.in_features % GROUP == 0 and stock.out_features % _ROWS == 0:
            model.set_submodule(name, FourBitLinear(stock, _rounded(stock.weight), keep=True))
    _lay_out(model)


def _lay_out(model: nn.Module) -> None:
    """Lay all packed weights into one piece of memory, in the layers' order."""
    matrices = [module for module in model.modules() if isinstance(module, Tiles)]
    places = [(matrix, name) for matrix in matrices for name, _ in matrix.named_buffers(recurse=False)]
    sizes = [-(-matrix.get_buffer(name).nbytes // _LINE) * _LINE for matrix, name in places]
    memory = in_large_pages(torch.empty(sum(sizes), dtype=torch.uint8))
    for (matrix, name), part in zip(places, memory.split(sizes), strict=True):
        buffer = matrix.get_buffer(name)  # freed once it is copied
        setattr(matrix, name, part[: buffer.nbytes].view(buffer.dtype).view(buffer.shape).copy_(buffer))


def _is_able(model: nn.Module) -> bool:
    parameter = next(model.parameters())
    formats = (torch.bfloat16, torch.float32)
    return native.is_loaded() and parameter.device.type == "cpu" and parameter.dtype in formats


@contextmanager
def full_weights(model: nn.Module) -> Iterator[None]:
    """Let every product read the full weights, as in transformers."""
    layers = [module for module in model.modules() if isinstance(module, FourBitLinear)]
    for layer in layers:
        layer.few = 0
    try:
        yield
    finally:
        for layer in layers:
            layer.few = MOST_ROWS


def _unpacked(codes: Tensor) -> Tensor:
    return torch.stack((codes & 15, codes >> 4), -1).flatten(1)


def _full(codes: Tensor, scales: Tensor) -> Tensor:
    grouped = _unpacked(codes).reshape(*scales.shape[:2], -1).float() - 8
    return (grouped * scales[..., :1].float() + scales[..., 1:].float()).flatten(1)


@torch.no_grad()
def _rounded(weight: Tensor) -> tuple[Tensor, Tensor]:
    """The weights rounded to four bits: codes and scales as `FourBitLinear` takes them."""
    groups = weight.float().reshape(len(weight), -1, GROUP)
    low, high = groups.aminmax(dim=-1, keepdim=True)
    scale = ((high - low) / 15).bfloat16().float().clamp(min=1e-8)
    zero = (low + 8 * scale).bfloat16().float()
    codes = ((groups - zero) / scale).round_().add_(8).clamp_(0, 15).to(torch.uint8).reshape(weight.shape)
    return codes[:, ::2] | codes[:, 1::2] << 4, torch.cat((scale, zero), -1)
