"""Keys and values of several sequences that grow side by side, and the attention over them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers import PreTrainedConfig
from transformers.cache_utils import Cache

from specextend_cli.engine.attribution import AttentionRecorder
from specextend_cli.engine.cache import BufferLayer, KVCache


class _Layer(BufferLayer):
    """One layer's view of a `BatchedKVCache`."""

    def __init__(self, slots: BatchedKVCache, index: int) -> None:
        super().__init__()
        self.slots, self.index = slots, index

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """Append one row to each sequence; views [used, heads, longest + 1, d] of all keys and values."""
        slots = self.slots
        keys, values = slots.buffer[:, self.index, : slots.used]
        keys[slots.at, :, slots.lengths] = key_states[:, :, 0]
        values[slots.at, :, slots.lengths] = value_states[:, :, 0]
        return keys[:, :, : slots.longest + 1], values[:, :, : slots.longest + 1]

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Keys visible to the current forward, and their offset."""
        return self.slots.longest + query_length, 0

    def get_seq_length(self) -> int:
        """Rows of the longest sequence."""
        return self.slots.longest

    def get_max_length(self) -> int:
        """Rows that there is memory for."""
        return self.slots.buffer.shape[4]


class BatchedKVCache(Cache):
    """Keys and values of several sequences, [2, layers, slots, kv_heads, capacity, head_dim]; the first `used` live."""

    def __init__(self, config: PreTrainedConfig, like: KVCache, slots: int, capacity: int) -> None:
        _, layers, heads, _, head_dim = like.buffer.shape
        self.buffer = like.buffer.new_zeros(2, layers, slots, heads, capacity, head_dim)
        self.used = 0
        self.lengths = self.at = torch.empty(0, dtype=torch.long, device=like.buffer.device)
        super().__init__(layers=[_Layer(self, index) for index in range(layers)])

    @property
    def longest(self) -> int:
        """Rows of the longest sequence."""
        return int(self.lengths.max()) if self.used else 0

    def add(self, read: KVCache) -> None:
        """Copy a prompt's cache into the next slot."""
        self.buffer[:, :, self.used, :, : read.length] = read.rows(0, read.length)
        self._set([*self.lengths.tolist(), read.length])

    def drop(self, slot: int) -> None:
        """Free a slot; the last one moves there."""
        lengths = self.lengths.tolist()
        last = lengths.pop()
        if slot < len(lengths):
            self.buffer[:, :, slot, :, :last] = self.buffer[:, :, self.used - 1, :, :last]
            lengths[slot] = last
        self._set(lengths)

    def grow(self) -> None:
        """Every sequence is one row longer."""
        self.lengths = self.lengths + 1

    def mask(self, dtype: torch.dtype) -> Tensor | None:
        """The additive mask [used, 1, 1, longest + 1] of rows after each sequence's new one; None if there are none."""
        if int(self.lengths.min()) == self.longest:
            return None
        return _hidden(torch.arange(self.longest + 1, device=self.lengths.device) > self.lengths[:, None], dtype)

    def _set(self, lengths: list[int]) -> None:
        self.used = len(lengths)
        self.lengths = torch.tensor(lengths, dtype=torch.long, device=self.buffer.device)
        self.at = torch.arange(self.used, device=self.buffer.device)


def _hidden(where: Tensor, dtype: torch.dtype) -> Tensor:
    return torch.zeros(where.shape, dtype=dtype, device=where.device).masked_fill_(where, -torch.inf)[:, None, None]


class BatchedAttention:
    """A `Backend` with one query per sequence. Query heads that share a key head are folded, so keys are read once."""

    def __init__(self, mask: Tensor | None, recorder: AttentionRecorder | None) -> None:
        self.mask, self.recorder = mask, recorder

    def __call__(self, q: Tensor, k: Tensor, v: Tensor, scale: float, tree_mask: Tensor | None) -> Tensor:
        """See `Backend`."""
        self.record(q, k, scale)
        folded = q.reshape(*k.shape[:2], -1, q.shape[3])
        return scaled_dot_product_attention(folded, k, v, attn_mask=self.mask, scale=scale).reshape(q.shape)

    def record(self, q: Tensor, k: Tensor, scale: float) -> None:
        """Record one layer's queries [b, H, 1, d] and keys [b, H_kv, T, d]."""
        if self.recorder is not None:
            self.recorder.record(q.reshape(*k.shape[:2], -1, q.shape[3]), k, scale, self.mask)
