"""GGUF's 4-bit weights kept as they are, beside the full ones that they stand for.

A Q4_1 block is 32 weights of a row, each d * code + m with a code from 0 to 15. Kernels want scale * (code - 8) + zero
in bfloat16; so scale and zero are rounded first, and the full weights computed from them: both mean the same numbers.

`four_bit.safetensors` holds, of every such weight [rows, columns], `NAME.codes` [rows, columns / 2] (uint8, the code of
the lower column in the lower half) and `NAME.scales` [rows, columns / 32, 2] (bfloat16: scale, zero).
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
_BLOCK = 20  # bytes: d and m in float16, then 16 bytes of codes


@dataclass(frozen=True)
class FourBit:
    """`codes` [rows, columns] uint8; `scales` [rows, columns / 32, 2] float32, exact in bfloat16."""

    codes: npt.NDArray[np.uint8]
    scales: npt.NDArray[np.float32]

    @classmethod
    def read(cls, tensor: ReaderTensor) -> FourBit | None:
        """The codes of a Q4_1 tensor, None of any other."""
        if tensor.tensor_type.name != "Q4_1":
            return None
        columns, rows = map(int, tensor.shape)
        blocks = np.ascontiguousarray(tensor.data).view(np.uint8).reshape(rows, columns // GROUP, _BLOCK)
        d, m = (blocks[..., at : at + 2].copy().view(np.float16)[..., 0].astype(np.float32) for at in (0, 2))
        packed = blocks[..., 4:]
        codes = np.concatenate((packed & 15, packed >> 4), -1).reshape(rows, columns)
        return cls(codes, np.stack((_bf16(d), _bf16(m + 8 * d)), -1))

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


def _bf16(values: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Rounded to what bfloat16 can hold, ties to even."""
    bits = values.view(np.uint32)
    return ((bits + np.uint32(0x7FFF) + (bits >> 16 & 1)) & np.uint32(0xFFFF0000)).view(np.float32)
