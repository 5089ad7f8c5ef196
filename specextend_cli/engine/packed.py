"""Linear layers and embeddings whose weights have four to eight bits, and no other form in memory.

One token's product with a matrix reads every weight once: with four bits a weight that takes a quarter of the time. The
native library's kernel multiplies few rows; it rounds them to eight bits, unless the model is in float32. For many rows
these layers unpack one matrix at a time. Both have the same weights, so the output depends on the choice only by
rounding. A model whose whole forward is native (`native_runner.py`) reads prompts without them.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from specextend_cli.engine import native
from specextend_cli.engine.native.kernels import FORMATS, on_torch_threads
from specextend_cli.engine.native.shared_library import Matrix
from specextend_cli.engine.temporary import exchanged
from specextend_cli.engine.transfer import in_large_pages

GROUP = 32  # columns whose scales are stored together
MOST_ROWS = 32
"""Rows of an input up to which the kernel multiplies."""
ROWS = 16
"""Kernels take matrices with a multiple of so many rows."""
_STEP = 8  # columns whose codes are stored together
_LINE = 64  # bytes of a line of the processor's cache


class PackedKind(NamedTuple):
    """A kind of SxMatrix of four to eight bits: its number, bits, and numbers in `scales` for 32 columns of a row."""

    number: int
    bits: int
    scales: int


FOUR_BIT = PackedKind(1, 4, 2)
_SIX_BIT, _SIX_BIT_ZERO, _EIGHT_BIT = PackedKind(2, 6, 2), PackedKind(3, 6, 2), PackedKind(4, 8, 1)
KIND_OF_BLOCKS = {
    "Q4_0": FOUR_BIT,
    "Q4_1": FOUR_BIT,
    "Q5_0": _SIX_BIT_ZERO,
    "Q5_1": _SIX_BIT_ZERO,
    "Q8_0": _EIGHT_BIT,
    "Q4_K": FOUR_BIT,
    "Q5_K": _SIX_BIT_ZERO,
    "Q6_K": _SIX_BIT,
}
"""What blocks of GGUF's types, by their names, are packed as."""


class Tiles(nn.Module):
    """A matrix [rows, columns] of four to eight bits a weight as the kernel takes it (`native/int4_matmul.h`).

    Codes [rows / 16, columns / 8, 16 * bits] hold eight columns of every row, of eight bits the upper halves first.
    Scales [rows / 16, columns / 32, 1 or 2, 16], bfloat16, are what the kind says of 32 columns.
    """

    codes: Tensor
    scales: Tensor

    def __init__(self, kind: PackedKind, rows: int, columns: int) -> None:
        """Its contents are not set."""
        super().__init__()
        self.kind, self.rows, self.columns = kind, rows, columns
        codes = torch.empty(rows // ROWS, columns // _STEP, ROWS * kind.bits, dtype=torch.uint8)
        scales = torch.empty(rows // ROWS, columns // GROUP, kind.scales, ROWS, dtype=torch.bfloat16)
        self.register_buffer("codes", codes, persistent=False)
        self.register_buffer("scales", scales, persistent=False)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Tiles:
        """Neither moved nor cast with the module that it is in: a draft head shares its target's embedding."""
        return self

    @property
    def matrix(self) -> Any:
        """The library's structure, which points to both."""
        at = self.codes.data_ptr(), self.scales.data_ptr()
        return Matrix(self.kind.number, self.rows, self.columns, *at, None)

    def forward(self, x: Tensor) -> Tensor:
        """x [n, columns] -> [n, rows]."""
        read, out = x.float().contiguous(), torch.empty(len(x), self.rows)
        is_exact = x.dtype == torch.float32
        on_torch_threads().sx_int4_matmul(ctypes.byref(self.matrix), read.data_ptr(), len(x), is_exact, out.data_ptr())
        return out.to(x.dtype)

    def set_blocks(self, type_number: int, blocks: Tensor, first: int = 0) -> None:
        """Take rows from `first` on from blocks [count, bytes], uint8, of a type of GGUF's, whole tiles.

        ValueError: a scale is not finite.
        """
        some = slice(first // ROWS, (first + len(blocks)) // ROWS)
        codes, scales, read = self.codes[some], self.scales[some], blocks.contiguous()
        sizes, at = (ROWS * len(codes), self.columns), (codes.data_ptr(), scales.data_ptr())
        if on_torch_threads().sx_pack(type_number, read.data_ptr(), *sizes, *at):
            raise ValueError("a tensor has values that are not finite")

    def set_rounded(self, weight: Tensor) -> None:
        """Take the weights [rows, columns], rounded to four bits."""
        groups = weight.float().reshape(self.rows, -1, GROUP)
        low, high = groups.aminmax(dim=-1, keepdim=True)
        scale = ((high - low) / 15).bfloat16().float().clamp(min=1e-8)
        zero = (low + 8 * scale).bfloat16().float()
        codes = ((groups - zero) / scale).round_().add_(8).clamp_(0, 15).to(torch.uint8).reshape(self.rows, -1)
        words = (codes[:, ::2] | codes[:, 1::2] << 4).view(torch.int32).unflatten(0, (-1, ROWS))
        self.codes.view(torch.int32).copy_(words.transpose(1, 2))
        self.scales.copy_(torch.cat((scale, zero), -1).unflatten(0, (-1, ROWS)).permute(0, 2, 3, 1))

    def unpacked(self, dtype: torch.dtype) -> Tensor:
        """The weights [rows, columns]."""
        out = torch.empty(self.rows, self.columns, dtype=dtype)
        on_torch_threads().sx_unpack(ctypes.byref(self.matrix), dtype == torch.bfloat16, out.data_ptr())
        return out

    def unpacked_rows(self, rows: Tensor, dtype: torch.dtype) -> Tensor:
        """Some rows, [.., columns] of `rows` [..], which are not checked."""
        out, ids = torch.empty(*rows.shape, self.columns, dtype=dtype), rows.contiguous()
        is_bf16, matrix = dtype == torch.bfloat16, ctypes.byref(self.matrix)
        on_torch_threads().sx_unpack_rows(matrix, is_bf16, ids.data_ptr(), ids.numel(), out.data_ptr())
        return out


class PackedLinear(nn.Linear):
    """A linear layer of packed weights, in the number format of what it multiplies."""

    def __init__(
        self, packed: Tiles, bias: nn.Parameter | None, dtype: torch.dtype, full: nn.Parameter | None = None
    ) -> None:
        """`full`: the weights that many rows are multiplied by, where they are others (of a draft that was rounded)."""
        nn.Module.__init__(self)
        self.in_features, self.out_features = packed.columns, packed.rows
        self.packed, self.dtype, self.full = packed, dtype, full
        self.bias = bias  # type: ignore[assignment]
        self.few = MOST_ROWS

    @property
    def weight(self) -> Tensor:  # type: ignore[override]
        """The weights [rows, columns], unpacked anew."""
        return self.packed.unpacked(self.dtype) if self.full is None else self.full

    def forward(self, x: Tensor) -> Tensor:
        """x [.., columns] -> [.., rows]."""
        if x.numel() > self.few * self.in_features:
            return linear(x, self.weight, self.bias)
        out: Tensor = self.packed(x.reshape(-1, self.in_features)).reshape(*x.shape[:-1], self.out_features)
        return out if self.bias is None else out + self.bias


class PackedEmbedding(nn.Module):
    """An embedding of packed weights; `embed_scale`, 1 but in Gemma, multiplies what it gives."""

    def __init__(self, packed: Tiles, dtype: torch.dtype, embed_scale: Tensor | None = None) -> None:
        super().__init__()
        self.num_embeddings, self.embedding_dim = packed.rows, packed.columns
        self.packed, self.dtype = packed, dtype
        self.embed_scale = torch.ones(()) if embed_scale is None else embed_scale

    @property
    def weight(self) -> Tensor:
        """The weights [rows, columns], unpacked anew."""
        return self.packed.unpacked(self.dtype)

    def forward(self, tokens: Tensor) -> Tensor:
        """Tokens [..] -> [.., columns]. IndexError for those that do not exist."""
        if tokens.numel() and not 0 <= int(tokens.min()) <= int(tokens.max()) < self.num_embeddings:
            raise IndexError(f"tokens {tokens.flatten().tolist()} of a vocabulary of {self.num_embeddings}")
        return self.packed.unpacked_rows(tokens, self.dtype) * self.embed_scale.to(self.dtype)


def can_pack(device: torch.device, dtype: torch.dtype) -> bool:
    """Whether a model there, in that number format, can have packed weights."""
    return native.is_loaded() and device.type == "cpu" and dtype in FORMATS


def round_to_four_bit(model: nn.Module) -> None:
    """Let few rows read the model's weights rounded to four bits. For draft models, whose errors change no output."""
    first = next(model.parameters())
    if not can_pack(first.device, first.dtype):
        return
    layers = {
        name: module
        for name, module in model.named_modules()
        if type(module) is nn.Linear and module.in_features % GROUP == 0 and module.out_features % ROWS == 0
    }
    packed = [Tiles(FOUR_BIT, stock.out_features, stock.in_features) for stock in layers.values()]
    lay_out(packed)
    for (name, stock), tiles in zip(layers.items(), packed, strict=True):
        tiles.set_rounded(stock.weight.detach())
        model.set_submodule(name, PackedLinear(tiles, stock.bias, stock.weight.dtype, cast(nn.Parameter, stock.weight)))


def lay_out(matrices: Sequence[Tiles]) -> None:
    """Lay matrices whose contents are not set yet into one piece of memory, in this order."""
    places = [(matrix, name) for matrix in matrices for name, _ in matrix.named_buffers(recurse=False)]
    sizes = [-(-matrix.get_buffer(name).nbytes // _LINE) * _LINE for matrix, name in places]
    memory = in_large_pages(torch.empty(sum(sizes), dtype=torch.uint8))
    for (matrix, name), part in zip(places, memory.split(sizes), strict=True):
        buffer = matrix.get_buffer(name)
        setattr(matrix, name, part[: buffer.nbytes].view(buffer.dtype).view(buffer.shape))


def full_weights(model: nn.Module) -> AbstractContextManager[None]:
    """Let every product read full weights, as in transformers: they are unpacked for so long."""
    layers = [module for module in model.modules() if isinstance(module, PackedLinear)]
    full = [(layer, "full", nn.Parameter(layer.weight, requires_grad=False)) for layer in layers]
    return exchanged([*full, *((layer, "few", 0) for layer in layers)])
