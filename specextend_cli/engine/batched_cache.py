"""Keys, values and states of several sequences that grow side by side, and the attention over them."""

from __future__ import annotations

import itertools
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers import PreTrainedConfig
from transformers.cache_utils import Cache, LinearAttentionCacheLayerMixin

from specextend_cli.engine.attention.softmax import PLAIN, SoftmaxOptions
from specextend_cli.engine.cache import BufferLayer, KVCache, attending
from specextend_cli.engine.recurrent import Home, State
from specextend_cli.engine.transfer import upload


class _Layer(BufferLayer):
    """One layer's view of a `BatchedKVCache`."""

    def __init__(self, slots: BatchedKVCache, index: int) -> None:
        super().__init__()
        self.slots, self.index = slots, index

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """Append one row to each sequence; views [used, heads, longest + 1, d] of all keys and values."""
        slots = self.slots
        keys, values = slots.of_layer(self.index)
        keys[slots.at, :, slots.lengths] = key_states[:, :, 0]
        values[slots.at, :, slots.lengths] = value_states[:, :, 0]
        return keys[:, :, : slots.longest + 1], values[:, :, : slots.longest + 1]

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Keys visible to the current forward, and their offset."""
        return self.slots.longest + query_length, 0

    def get_seq_length(self) -> int:
        """Rows of the longest sequence."""
        return self.slots.longest


class BatchedRecurrentLayer(LinearAttentionCacheLayerMixin):
    """One layer's states, [slots, ...]; forwards see those of the first `used`.

    No token of a batch is padding, and none is taken back, so transformers' functions change the states where they lie.
    """

    def __init__(self) -> None:
        super().__init__()
        self.held = State(None, None)

    def add(self, slot: int, read: State) -> None:
        """Copy the states after a prompt."""
        for held, given in zip(self.held, read, strict=True):
            if held is not None and given is not None:
                held[slot] = given[0]

    def move(self, slot: int, to: int) -> None:
        """Copy a slot's states into another."""
        for held in self.held:
            if held is not None:
                held[to] = held[slot]

    def use(self, slots: int) -> None:
        """Show the first `slots`."""
        self.conv_states[0], self.recurrent_states[0] = self.held.made(lambda part: part[:slots])
        self.has_previous_state[0] = True

    def lazy_initialization(self, *args: Any, **kwargs: Any) -> None:
        """Nothing to do."""

    def update_conv_state(self, conv_states: Tensor, state_idx: int = 0, **kwargs: Any) -> Tensor:
        """Take one new input [used, channels, 1] of each; the inputs that the convolution sees."""
        held = self.conv_states[0]
        assert held is not None
        whole = torch.cat((held, conv_states), -1)
        held.copy_(whole[..., -held.shape[-1] :])
        return whole

    def update_recurrent_state(self, recurrent_states: Tensor, state_idx: int = 0, **kwargs: Any) -> Tensor:
        """Take the new states [used, ...]."""
        held = self.recurrent_states[0]
        assert held is not None
        held.copy_(recurrent_states)
        return held


class BatchedKVCache(Cache):
    """Keys and values of several sequences; the first `used` live.

    `buffers` are [2, layers, slots, kv_heads, capacity, head_dim], one for each of a `KVCache`'s. Its layers are those
    that attend, as there; `states` are the layers that have a state.
    `rows` are the lengths of each on the host, `lengths` [used] the same on the device. Sequence b's first `common[b]`
    rows are those of sequence `leader[b]`, the first with the same prompt (both [used] int64, on the host).
    """

    def __init__(self, config: PreTrainedConfig, like: KVCache, slots: int, capacity: int) -> None:
        self.places, self.device, self.slots = like.places, like.device, slots
        self.buffers = [
            one.new_zeros(2, layers, slots, heads, capacity, head_dim)
            for one in like.buffers
            for _, layers, heads, _, head_dim in [one.shape]
        ]
        self.rows: list[int] = []
        self._prompts: list[tuple[int, int]] = []  # a number and the length of each sequence's prompt
        self.leader = self.common = torch.empty(0, dtype=torch.long)
        self.lengths = self.at = torch.empty(0, dtype=torch.long, device=like.device)
        self._home: Home | None = None
        indices = itertools.count()
        layers: list[Any] = [
            _Layer(self, next(indices)) if does else BatchedRecurrentLayer() for does in attending(config)
        ]
        self.states = [layer for layer in layers if isinstance(layer, BatchedRecurrentLayer)]
        super().__init__(layers=layers)

    @property
    def buffer(self) -> Tensor:
        """The only one of `buffers`; ValueError if there are several."""
        (only,) = self.buffers
        return only

    def of_layer(self, index: int) -> Tensor:
        """A view [2, used, kv_heads, capacity, head_dim] of the rows of the layer that attends with number `index`."""
        buffer, number = self.places[index]
        return self.buffers[buffer][:, number, : self.used]

    @property
    def used(self) -> int:
        """Live sequences."""
        return len(self.rows)

    @property
    def longest(self) -> int:
        """Rows of the longest sequence."""
        return max(self.rows, default=0)

    def add(self, read: KVCache, prompt: int) -> None:
        """Copy a prompt's cache into the next slot. Equal numbers are equal prompts, whose rows are read together."""
        self._prompts.append((prompt, read.length))
        for buffer, rows in zip(self.buffers, read.rows(0, read.length), strict=True):
            buffer[:, :, self.used, :, : read.length] = rows
        if self.states and self._home is None:
            self._home = Home([one.state for one in read.states.layers], self.slots)
            for layer, held in zip(self.states, self._home.states, strict=True):
                layer.held = held
        for layer, one in zip(self.states, read.states.layers, strict=True):
            layer.add(self.used, one.state)
        self._set([*self.rows, read.length])

    def drop(self, slot: int) -> None:
        """Free a slot; the last one moves there."""
        *rows, last = self.rows
        prompt = self._prompts.pop()
        if slot < len(rows):
            self._prompts[slot] = prompt
            for buffer in self.buffers:
                buffer[:, :, slot, :, :last] = buffer[:, :, self.used - 1, :, :last]
            for layer in self.states:
                layer.move(self.used - 1, slot)
            rows[slot] = last
        self._set(rows)

    def grow(self) -> None:
        """Every sequence is one row longer."""
        self.rows = [rows + 1 for rows in self.rows]
        self.lengths = self.lengths + 1

    def mask(self) -> Tensor | None:
        """The rows up to each sequence's new one, bool [used, longest + 1]; None if that is all of them."""
        if min(self.rows) == self.longest:
            return None
        return torch.arange(self.longest + 1, device=self.lengths.device) <= self.lengths[:, None]

    def place_states(self) -> tuple[int, ...] | None:
        """Where the states lie, as in `RecurrentStates.place`; new ones take their place. None: not in one piece."""
        home = self._home and self._home.addresses
        return (self.slots, 1, *home, *home) if home else None

    def _set(self, rows: list[int]) -> None:
        self.rows = rows
        self.leader = torch.tensor([self._prompts.index(prompt) for prompt in self._prompts], dtype=torch.long)
        self.common = torch.tensor([length for _, length in self._prompts], dtype=torch.long)
        self.lengths = upload(rows, self.device)
        self.at = torch.arange(self.used, device=self.device)
        for layer in self.states:
            layer.use(self.used)


class BatchedAttention:
    """A `Backend` with one query per sequence, for one forward. Query heads that share a key head are folded.

    Queries are [b, H, 1, d], and `tree_mask` [b, T] says which keys each sequence sees; None: all.
    """

    def __init__(self) -> None:
        self._seen: Tensor | None = None
        self._mask: Tensor | None = None  # additive, of `_seen`

    def __call__(
        self, q: Tensor, k: Tensor, v: Tensor, scale: float, tree_mask: Tensor | None, softmax: SoftmaxOptions = PLAIN
    ) -> Tensor:
        """See `Backend`."""
        folded = q.reshape(*k.shape[:2], -1, q.shape[3])
        if softmax.is_plain:
            mask = self._additive(tree_mask, q.dtype)
            return scaled_dot_product_attention(folded, k, v, attn_mask=mask, scale=scale).reshape(q.shape)
        scores = torch.matmul(folded, k.transpose(2, 3)).float() * scale
        by_head = scores.reshape(len(q), -1, 1, k.shape[2])
        weights = softmax.weights(by_head, None if tree_mask is None else tree_mask[:, None, None])
        return torch.matmul(weights.reshape(scores.shape), v.float()).reshape(q.shape).to(q.dtype)

    def _additive(self, seen: Tensor | None, dtype: torch.dtype) -> Tensor | None:
        """[b, 1, 1, T], made once for layers that share a mask."""
        if self._seen is not seen:
            self._seen, self._mask = seen, None
            if seen is not None:
                hidden = torch.zeros(seen.shape, dtype=dtype, device=seen.device).masked_fill_(~seen, -torch.inf)
                self._mask = hidden[:, None, None]
        return self._mask
