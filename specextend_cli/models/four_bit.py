"""GGUF's quantized weights as four-bit codes, which are kept beside the full weights.

A Q4_1 block is 32 weights of a row, each d * code + m with a code from 0 to 15. Kernels compute scale * (code - 8) +
zero in bfloat16; so scale and zero are rounded first, and the full weights are computed from them.

A Q8_0 block is 32 weights d * number with a number from -128 to 127, that is, of two codes: 16 * high + low.

`four_bit.safetensors` holds, of every such weight [rows, columns], `NAME.codes` [rows, columns / 2] (uint8, the code of
the lower column in the lower half) and `NAME.scales` [rows, columns / 32, 2] (bfloat16: scale, zero); and of the lower
halves of a Q8_0 weight `NAME.low.codes` and `NAME.low.scales`: the weight is the sum of both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from collections.abc import Callable

    from gguf import ReaderTensor

FILE = "four_bit.safetensors"
GROUP = 32
_BLOCK = {"Q4_1": 20, "Q8_0": 34}  # bytes: d (and m) in float16, then 32 codes of 4 or 8 bits


@dataclass(frozen=True)
class FourBit:
    """`codes` [rows, columns] uint8; `scales` [rows, columns / 32, 2] float32, exact in bfloat16."""

    codes: npt.NDArray[np.uint8]
    scales: npt.NDArray[np.float32]

    @classmethod
    def read(cls, tensor: ReaderTensor) -> tuple[FourBit, ...]:
        """The weights whose sum a Q4_1 or Q8_0 tensor is; empty for other types."""
        kind = tensor.tensor_type.name
        if kind not in _BLOCK:
            return ()
        columns, rows = map(int, tensor.shape)
        blocks = np.ascontiguousarray(tensor.data).view(np.uint8).reshape(rows, columns // GROUP, _BLOCK[kind])
        d = _bf16(_half(blocks[..., :2]))
        if kind == "Q4_1":
            packed, m = blocks[..., 4:], _half(blocks[..., 2:4])
            codes = np.concatenate((packed & 15, packed >> 4), -1).reshape(rows, columns)
            return (cls(codes, np.stack((d, _bf16(m + 8 * _half(blocks[..., :2]))), -1)),)
        numbers = blocks[..., 2:].view(np.int8).reshape(rows, columns)
        high, low = (numbers >> 4) + 8, numbers & 15
        return (
            cls(high.astype(np.uint8), np.stack((16 * d, np.zeros_like(d)), -1)),
            cls(low.astype(np.uint8), np.stack((d, 8 * d), -1)),
        )

    def full(self) -> npt.NDArray[np.float32]:
        """The weights, [rows, columns]."""
        grouped = self.codes.reshape(*self.scales.shape[:2], GROUP).astype(np.float32) - 8
        weights = grouped * self.scales[..., :1] + self.scales[..., 1:]
        return weights.reshape(self.codes.shape)

    def rows(self, order: Callable[[npt.NDArray[Any]], npt.NDArray[Any]]) -> FourBit:
        """The same with its rows in another order; `order` takes and gives [rows, columns]."""
        flat = self.scales.reshape(len(self.scales), -1)
        return FourBit(order(self.codes), order(flat).reshape(self.scales.shape))

    def packed(self) -> npt.NDArray[np.uint8]:
        """Two codes a byte."""
        halves: npt.NDArray[np.uint8] = np.bitwise_or(self.codes[:, ::2], self.codes[:, 1::2] << 4, dtype=np.uint8)
        return halves


def _half(raw: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
    """The float16 in the last two bytes."""
    return raw.copy().view(np.float16)[..., 0].astype(np.float32)


def to_bf16(array: npt.NDArray[np.float32]) -> npt.NDArray[np.uint16]:
    """The bit patterns of `array` in bfloat16, rounded to nearest, ties to even. Finite values only."""
    if not np.isfinite(array).all():
        raise ValueError("a tensor has values that are not finite")
    bits = np.ascontiguousarray(array).view(np.uint32)
    return ((bits + np.uint32(0x7FFF) + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def _bf16(values: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Rounded to bfloat16."""
    return (to_bf16(values).astype(np.uint32) << 16).view(np.float32)
