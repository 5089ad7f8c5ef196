"""GGUF's quantized weights as four-bit codes, which are kept beside the full weights.

Kernels compute scale * (code - 8) + zero in bfloat16, with a code from 0 to 15 and a scale and zero for 32 weights of a
row, or sixteen. Blocks of these kinds are of that form, and their codes are taken as they are; scale and zero are
rounded to bfloat16 first, and the full weights are computed from them:

- Q4_0, Q4_1: 32 weights d * (code - 8), or d * code + m;
- Q4_K: 256 weights, every 32 of them d * s * code - dmin * m with whole numbers s and m;
- Q8_0: 32 weights d * number with a number from -128 to 127, that is, of two codes: 16 * high + low;
- Q6_K: 256 weights, every sixteen of them d * s * number with a number from -32 to 31, likewise of two codes.

`four_bit.safetensors` holds, of every such weight [rows, columns], `NAME.codes` [rows, columns / 2] (uint8, the code of
the lower column in the lower half) and `NAME.scales` [rows, columns / 32, 2] (bfloat16: scale, zero; columns / 16 of
Q6_K); and of the lower halves of a Q8_0 or Q6_K weight `NAME.low.codes` and `NAME.low.scales`: the weight is the sum of
both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from gguf import GGMLQuantizationType

FILE = "four_bit.safetensors"
GROUP = 32
_GROUPS = {"Q6_K": 16}  # weights that share a scale, where these are not 32
ROWS = 16
"""Kernels take matrices with a multiple of so many rows."""
PARTS = {"Q4_0": 1, "Q4_1": 1, "Q4_K": 1, "Q8_0": 2, "Q6_K": 2}
"""How many matrices of codes a weight of that kind is the sum of; of other kinds none."""


def group_of(kind: GGMLQuantizationType) -> int:
    """Weights of a kind in `PARTS` that share a scale."""
    return _GROUPS.get(kind.name, GROUP)


@dataclass(frozen=True)
class FourBit:
    """`codes` [rows, columns] uint8; `scales` [rows, columns / group, 2] float32, exact in bfloat16."""

    codes: npt.NDArray[np.uint8]
    scales: npt.NDArray[np.float32]

    @classmethod
    def read(cls, kind: GGMLQuantizationType, raw: npt.NDArray[np.uint8]) -> tuple[FourBit, ...]:
        """The weights whose sum the blocks `raw` [rows, bytes] are, of a kind in `PARTS`."""
        from gguf import GGML_QUANT_SIZES
        from gguf.quants import Q4_K

        rows = len(raw)
        blocks = np.ascontiguousarray(raw).reshape(rows, -1, GGML_QUANT_SIZES[kind][1])
        if kind.name == "Q6_K":
            return cls._of_six(rows, blocks)
        d = _half(blocks[..., :2])
        if kind.name == "Q8_0":
            return cls._of_eight(rows, blocks[..., 2:].view(np.int8), d)
        if kind.name == "Q4_K":
            scale, least = Q4_K.get_scale_min(blocks[..., 4:16].reshape(-1, 12))
            scale, least = (one.reshape(rows, -1, 8).astype(np.float32) for one in (scale, least))
            packed = blocks[..., 16:].reshape(rows, -1, 4, GROUP)  # each half of the bytes is a group of its own
            d, zero = d[..., None] * scale, -_half(blocks[..., 2:4])[..., None] * least
            d, zero = d.reshape(rows, -1), zero.reshape(rows, -1) + 8 * d.reshape(rows, -1)
            codes = np.stack((packed & 15, packed >> 4), -2)
        else:
            packed = blocks[..., -16:]
            zero = _half(blocks[..., 2:4]) + 8 * d if kind.name == "Q4_1" else np.zeros_like(d)
            codes = np.concatenate((packed & 15, packed >> 4), -1)
        return (cls._of(rows, codes, _bf16(d), _bf16(zero)),)

    @classmethod
    def _of_six(cls, rows: int, blocks: npt.NDArray[np.uint8]) -> tuple[FourBit, ...]:
        """Q6_K: 128 bytes with the lower four bits, 64 with the upper two, 16 scales and their common factor."""
        halves, pairs = blocks[..., :128].reshape(rows, -1, 2, 64), blocks[..., 128:192].reshape(rows, -1, 2, 1, 32)
        low = np.stack((halves & 15, halves >> 4), -2).reshape(rows, -1, 2, 4, 32)  # columns in order
        high = np.right_shift(pairs, np.arange(0, 8, 2, dtype=np.uint8)[:, None]) & 3
        numbers = np.bitwise_or(low, high << 4).astype(np.int8) - np.int8(32)
        scales = blocks[..., 192:208].view(np.int8) * _half(blocks[..., 208:])[..., None]
        return cls._of_eight(rows, numbers, scales.reshape(rows, -1))

    @classmethod
    def _of_eight(
        cls, rows: int, numbers: npt.NDArray[np.int8], scales: npt.NDArray[np.float32]
    ) -> tuple[FourBit, FourBit]:
        """Upper and lower halves of whole numbers, of which each `scales` [rows, columns / group] has a group."""
        d = _bf16(scales)
        return cls._of(rows, (numbers >> 4) + 8, 16 * d, np.zeros_like(d)), cls._of(rows, numbers & 15, d, 8 * d)

    @classmethod
    def _of(
        cls, rows: int, codes: npt.NDArray[Any], scale: npt.NDArray[np.float32], zero: npt.NDArray[np.float32]
    ) -> FourBit:
        return cls(codes.reshape(rows, -1).astype(np.uint8), np.stack((scale, zero), -1))

    def full(self) -> npt.NDArray[np.float32]:
        """The weights, [rows, columns]."""
        grouped = self.codes.reshape(*self.scales.shape[:2], -1).astype(np.float32) - 8
        weights = grouped * self.scales[..., :1] + self.scales[..., 1:]
        return weights.reshape(self.codes.shape)

    def packed(self) -> npt.NDArray[np.uint8]:
        """Two codes a byte."""
        halves: npt.NDArray[np.uint8] = np.bitwise_or(self.codes[:, ::2], self.codes[:, 1::2] << 4, dtype=np.uint8)
        return halves


def _half(raw: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
    """The float16 in the last two bytes."""
    return np.ascontiguousarray(raw).view(np.float16)[..., 0].astype(np.float32)


def to_bf16(array: npt.NDArray[np.float32]) -> npt.NDArray[np.uint16]:
    """The bit patterns of `array` in bfloat16, rounded to nearest, ties to even. Finite values only."""
    if not np.isfinite(array).all():
        raise ValueError("a tensor has values that are not finite")
    bits = np.ascontiguousarray(array).view(np.uint32)
    return ((bits + np.uint32(0x7FFF) + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def _bf16(values: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Rounded to bfloat16."""
    return (to_bf16(values).astype(np.uint32) << 16).view(np.float32)
