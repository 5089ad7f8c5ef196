"""What a step must read and multiply at least, from the model's own weights: the time below which no program gets.

Every weight of a matrix is read once and meets every node (a multiply-add, two operations); every key and value behind
is read once and meets every node's every head (two products of `head_dim`). Norms, RoPE and softmax count for nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from specextend_cli.bench.ceilings import Ceilings
from specextend_cli.engine.four_bit import FourBitLinear, Packed
from specextend_cli.engine.lm import LanguageModel


@dataclass(frozen=True, slots=True)
class Work:
    """One step's least: bytes of weights, bytes of keys and values, operations."""

    weights: int
    rows: int
    operations: int

    def reading(self, ceilings: Ceilings) -> float:
        """Seconds to read it all once."""
        return (self.weights + self.rows) / ceilings.bandwidth

    def multiplying(self, ceilings: Ceilings) -> float:
        """Seconds of its products alone."""
        return self.operations / ceilings.arithmetic

    def floor(self, ceilings: Ceilings) -> float:
        """Seconds: reading and multiplying may go on at the same time, so the longer of the two."""
        return max(self.reading(ceilings), self.multiplying(ceilings))


def work(lm: LanguageModel, length: int, nodes: int) -> Work:
    """Of verifying `nodes` nodes behind `length` tokens; one node is plain decoding."""
    config = lm.config
    row = lm.new_cache(0)
    kv_heads, head_dim = row.buffer.shape[2], row.buffer.shape[4]
    linear = [module for module in lm.model.modules() if isinstance(module, nn.Linear)]
    products = sum(2 * module.in_features * module.out_features for module in linear)
    attention = 4 * lm.layers * int(config.num_attention_heads) * head_dim * length
    return Work(
        weights=sum(map(_bytes, lm.model.modules())),
        rows=2 * lm.layers * kv_heads * head_dim * length * lm.dtype.itemsize,
        operations=nodes * (products + attention),
    )


def _bytes(module: nn.Module) -> int:
    """What a step of few nodes reads of a module's own weights: of an embedding a few rows, next to nothing."""
    if isinstance(module, nn.Embedding | FourBitLinear):  # whose packed weights are modules of their own
        return 0
    if isinstance(module, Packed):
        return sum(buffer.nbytes for buffer in module.buffers(recurse=False))
    return sum(parameter.nbytes for parameter in module.parameters(recurse=False))
