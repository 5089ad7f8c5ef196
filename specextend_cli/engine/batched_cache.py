"""Keys and values of several sequences that grow side by side, and the attention over them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers import PreTrainedConfig
from transformers.cache_utils import Cache, CacheLayerMixin

from specextend_cli.engine.attribution import AttentionRecorder
from specextend_cli.engine.cache import KVCache


class _BatchedLayer(CacheLayerMixin):
    """One layer's window on the slots."""

    def __init__(self, slots: BatchedKVCache, index: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.slots = slots
        self.index = index
        self.is_initialized = True

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        """Nothing to do: the buffer exists."""

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """Write one row behind each sequence; views [used, heads, longest, d] of all keys and values."""
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
        """Rows there is memory for."""
        return self.slots.buffer.shape[4]


class BatchedKVCache(Cache):
    """Keys and values of several sequences, [2, layers, slots, kv_heads, capacity, head_dim]; the first `used` live."""

    def __init__(self, config: PreTrainedConfig, like: KVCache, slots: int, capacity: int) -> None:
        _, layers, heads, _, head_dim = like.buffer.shape
        self.buffer = like.buffer.new_zeros(2, layers, slots, heads, capacity, head_dim)
        self.used = 0
        self.lengths = self.at = torch.empty(0, dtype=torch.long, device=like.buffer.device)
        super().__init__(layers=[_BatchedLayer(self, index) for index in range(layers)])

    @property
    def longest(self) -> int:
        """Rows of the longest sequence."""
        return int(self.lengths.max()) if self.used else 0

    def add(self, read: KVCache) -> None:
        """Copy a prompt that was read elsewhere into the next slot."""
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

    def cached(self) -> list[tuple[Tensor, Tensor]]:
        """Every layer's keys and values as they lie in memory, [used, kv_heads, capacity, head_dim]."""
        keys, values = self.buffer[:, :, : self.used]
        return list(zip(keys.unbind(), values.unbind(), strict=True))

    def write(self, own: Sequence[Tensor]) -> None:
        """One row behind each sequence: every layer's keys and values, [2, used, kv_heads, 1, head_dim] each."""
        rows = torch.stack(tuple(own)).squeeze(4)
        self.buffer[:, :, self.at, :, self.lengths] = rows.permute(2, 1, 0, 3, 4)

    def mask(self, dtype: torch.dtype) -> Tensor | None:
        """Additive [used, 1, 1, longest + 1]: hides what lies behind a sequence's new row. None if nothing does."""
        if int(self.lengths.min()) == self.longest:
            return None
        return _hidden(torch.arange(self.longest + 1, device=self.lengths.device) > self.lengths[:, None], dtype)

    def hidden(self, dtype: torch.dtype) -> Tensor:
        """Additive [used, 1, 1, longest]: hides what lies behind a sequence's last row."""
        return _hidden(torch.arange(self.longest, device=self.lengths.device) >= self.lengths[:, None], dtype)

    def _set(self, lengths: list[int]) -> None:
        self.used = len(lengths)
        self.lengths = torch.tensor(lengths, dtype=torch.long, device=self.buffer.device)
        self.at = torch.arange(self.used, device=self.buffer.device)


def _hidden(where: Tensor, dtype: torch.dtype) -> Tensor:
    return torch.zeros(where.shape, dtype=dtype, device=where.device).masked_fill_(where, -torch.inf)[:, None, None]


class BatchedAttention:
    """A `Backend`, one query a sequence. Those that share a key head are folded together: keys are read once."""

    def __init__(self, mask: Tensor | None, gaze: AttentionRecorder | None) -> None:
        self.mask, self.gaze = mask, gaze

    def __call__(self, q: Tensor, k: Tensor, v: Tensor, scale: float, tree_mask: Tensor | None) -> Tensor:
        """See `Backend`."""
        self.look(q, k, scale)
        folded = q.reshape(*k.shape[:2], -1, q.shape[3])
        return scaled_dot_product_attention(folded, k, v, attn_mask=self.mask, scale=scale).reshape(q.shape)

    def look(self, q: Tensor, k: Tensor, scale: float) -> None:
        """Let the gaze see one layer's queries [b, H, 1, d] and keys [b, H_kv, T, d]."""
        if self.gaze is not None:
            self.gaze.see(q.reshape(*k.shape[:2], -1, q.shape[3]), k, scale, self.mask)
