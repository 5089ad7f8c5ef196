"""What a captured forward reads and what it computes: memory that stays where it is.

A graph repeats the same launches over the same memory, so whatever changes between forwards lies in device memory:
tokens, positions, the tree's mask, how long the sequences are, and where their cache lies (`addresses_of`). All of
it is one tensor, so that the host can set it by one upload.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from specextend_cli.engine.attention.function import LayerQueries
from specextend_cli.engine.attention.triton_tree import WORD
from specextend_cli.engine.cache import KVCache

WORDS = 2
MOST_SLOTS = WORDS * WORD
"""Nodes of a draft tree whose keys lie in the cache, those of the present forward included."""
PER_BUFFER = 5
"""Integers of `addresses_of` of each buffer."""


def addresses_of(cache: KVCache) -> tuple[int, ...]:
    """Where a cache lies, in device memory: a CUDA graph that reads it there serves every cache, of any size.

    Of each of its buffers, the address of the first key; then, in numbers of the cache's format, the distances from a
    key to its value, and from one layer, sequence and head to the next: 0 to the next sequence where there is no batch.
    Rows of a head lie side by side.
    """
    found: tuple[int, ...] = ()
    for buffer in cache.buffers:
        by_kind, by_layer, by_sequence, by_head, _, _ = buffer.stride()
        found += (buffer.data_ptr(), by_kind, by_layer, by_sequence if cache.is_batch else 0, by_head)
    return found


class GraphInputs:
    """The inputs of one forward of `rows` tokens: a tree's nodes, or one token of each of several sequences.

    tokens, positions [rows]; words [rows, WORDS], a tree's mask as bits (None for sequences of one token); `starts`
    [sequences], the cache row of each sequence's first new token; `lengths` [sequences + 1], the keys that each sees,
    then how many of them are the tree's; `addresses` [buffers, 5] of the cache; `more`, what the caller wants
    beside. All int64. `states` [rows, hidden] are what a draft head reads.
    """

    def __init__(
        self,
        rows: int,
        sequences: int,
        device: torch.device,
        states: Tensor | None = None,
        *,
        more: int = 0,
        buffers: int = 1,
        in_tree: bool = False,
    ) -> None:
        """`states` [.., hidden] tells the head's width and number format; `in_tree`: even one row has a mask."""
        sizes = (rows, rows, rows * WORDS, sequences, sequences + 1, PER_BUFFER * buffers, more)
        self.rows, self.sequences = rows, sequences
        self.packed = torch.zeros(sum(sizes), dtype=torch.long, device=device)
        self.tokens, self.positions, words, self.starts, self.lengths, at, self.more = self.packed.split(sizes)
        self.addresses = at.view(buffers, PER_BUFFER)
        self.words = words.view(rows, WORDS) if rows > sequences or in_tree else None
        self.states = None if states is None else states.new_zeros(rows, states.shape[-1])

    def set(self, numbers: Sequence[int]) -> None:
        """All of them, or the last ones: `addresses` and `more`, or from `starts` on. Nobody waits for the upload."""
        # Maybe hundreds of numbers, which NumPy takes in half the time.
        self.packed[-len(numbers) :].copy_(torch.from_numpy(np.array(numbers, np.int64)), non_blocking=True)


class Recurrence(NamedTuple):
    """What a recurrence reads of each row: `q`, `k` [rows, key heads, K] and `v` [rows, heads, V].

    States are [heads, K, V], and follow the delta rule with `beta` [rows, heads]. `decay` [rows, heads] float32 are
    logarithms of what the state is multiplied by first. `normed`: queries and keys are normalized first. Queries are
    multiplied by `scale`.
    """

    q: Tensor
    k: Tensor
    v: Tensor
    decay: Tensor
    beta: Tensor
    normed: bool
    scale: float


class Recorded(NamedTuple):
    """What one layer's state after any row can be computed of: a convolution's inputs [b, channels, n], and its size.

    `recurrence` is None for layers that are nothing but a convolution.
    """

    new: Tensor
    size: int
    recurrence: Recurrence | None


class GraphOutput(NamedTuple):
    """Of one forward: `logits` [rows, vocabulary]; hidden `states`, each [rows, hidden]; every layer's `queries`.

    A language model's states are the inputs of its layers and the output of its final norm; a draft head's is the one
    that its next step reads. Queries, by the layer's number, are those of the first sequence.
    `recorded` is of a tree, in the order of the layers with states. All lie in the graph's memory and are valid until
    any graph runs: what is kept has to be copied.
    """

    logits: Tensor
    states: tuple[Tensor, ...]
    queries: Mapping[int, LayerQueries] = MappingProxyType({})
    recorded: tuple[Recorded, ...] = ()


class Body(Protocol):
    """Computes a forward so that it can be captured: no host reads, no allocations that depend on data."""

    states: Tensor | None
    """What a head joins its tokens with: [0, hidden], of the states' number format."""

    def __call__(self, inputs: GraphInputs) -> GraphOutput:
        """The output, with the new keys and values stored in the cache."""

    def is_current(self) -> bool:
        """Whether the model still computes what was captured."""
        return True
