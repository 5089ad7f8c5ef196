"""The roofline: what this machine can read and multiply per second, and the least time that a step needs by it.

Bandwidth and arithmetic are measured where they are needed. A step reads every weight of a matrix once and every key
and value once, and multiplies each with every node; norms, RoPE and softmax are not counted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import NamedTuple

import torch
from torch import nn

from specextend_cli.engine.cache import row_shapes
from specextend_cli.engine.four_bit import FourBitLinear, Packed
from specextend_cli.engine.lm import LanguageModel

_ROUNDS = 6
_ON_CPU, _ON_GPU = (256 << 20, 1536), (1 << 30, 8192)
"""Bytes of a buffer, several times the shared cache of a processor, and the width of a square matrix."""


class Roofline(NamedTuple):
    """Bytes read per second, and floating-point operations per second (a multiply-add is two)."""

    bandwidth: float
    arithmetic: float


@dataclass(frozen=True, slots=True)
class Work:
    """The least work of one step: bytes of weights, bytes of keys and values, operations."""

    weights: int
    rows: int
    operations: int

    def reading(self, machine: Roofline) -> float:
        """Seconds to read everything once."""
        return (self.weights + self.rows) / machine.bandwidth

    def multiplying(self, machine: Roofline) -> float:
        """Seconds for the matrix products alone."""
        return self.operations / machine.arithmetic

    def seconds(self, machine: Roofline) -> float:
        """The roofline's lower bound: reading and multiplying can overlap, so the longer of the two."""
        return max(self.reading(machine), self.multiplying(machine))


def work(lm: LanguageModel, length: int, nodes: int) -> Work:
    """The work of verifying `nodes` nodes after `length` tokens; one node is plain decoding."""
    rows = row_shapes(lm.config)  # of the layers that attend
    linear = [module for module in lm.model.modules() if isinstance(module, nn.Linear)]
    products = sum(2 * module.in_features * module.out_features for module in linear)
    attention = 4 * int(lm.config.num_attention_heads) * sum(row.head_dim for row in rows) * length
    return Work(
        weights=sum(map(_bytes, lm.model.modules())),
        rows=2 * sum(row.heads * row.head_dim for row in rows) * length * lm.dtype.itemsize,
        operations=nodes * (products + attention),
    )


def _bytes(module: nn.Module) -> int:
    """Bytes of a module's own weights that a step of few nodes reads; of an embedding next to nothing."""
    if isinstance(module, nn.Embedding | FourBitLinear):  # the packed weights are modules of their own
        return 0
    if isinstance(module, Packed):
        return sum(buffer.nbytes for buffer in module.buffers(recurse=False))
    return sum(parameter.nbytes for parameter in module.parameters(recurse=False))


def measure(device: torch.device, dtype: torch.dtype, *, scale: float = 1.0) -> Roofline:
    """Measure on all of torch's threads, or on the whole GPU. `scale` shrinks buffer and matrices, for tests."""
    size, width = (max(int(whole * scale), 16) for whole in (_ON_CPU if device.type == "cpu" else _ON_GPU))
    buffer = torch.ones(size // 4, dtype=torch.float32, device=device)
    copy = torch.empty_like(buffer)
    summed = buffer.nbytes / _fastest(lambda: buffer.sum(), device)
    copied = 2 * buffer.nbytes / _fastest(lambda: copy.copy_(buffer), device)
    a, b = (torch.ones(width, width, dtype=dtype, device=device) for _ in range(2))
    return Roofline(max(summed, copied), 2 * width**3 / _fastest(lambda: a @ b, device))


def _fastest(call: Callable[[], object], device: torch.device) -> float:
    """Seconds of the fastest of a few calls; the first one warms up."""
    return min(seconds(call, device) for _ in range(_ROUNDS + 1))


def seconds(call: Callable[[], object], device: torch.device) -> float:
    """Seconds of one call; the device is idle before and after."""
    wait(device)
    began = perf_counter()
    call()
    wait(device)
    return perf_counter() - began


def wait(device: torch.device) -> None:
    """Wait for the device: CUDA calls return before their work is done."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
