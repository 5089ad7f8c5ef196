"""The key-value cache: one buffer for layers alike, written by index, kept along a path, gathered into a working set.

transformers' dynamic cache concatenates on every step, and its static cache cannot drop rejected rows. Here a forward
first reserves rows, the layers fill them and get a view of everything up to their end. Accepted rows are then moved to
the front of the reserved ones in one gather over all layers; the others are overwritten later. In a batch, each
sequence has a slot and grows by a row a forward. Layers with a state have it here, too (`recurrent.py`); layers that do
not attend have no rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedConfig
from transformers.cache_utils import Cache, DynamicLayer

from specextend_cli.engine.recurrent import RecurrentLayer, RecurrentStates
from specextend_cli.engine.transfer import in_large_pages, upload

_SPARE = 192  # rows on GPUs beyond those asked for: CUDA graphs write up to so many that nobody reads
_ROUND = 256  # rows; capacities are rounded up, so that a few tokens more do not move the buffer


ATTENDS = {"full_attention": True, "sliding_attention": True, "linear_attention": False, "conv": False}
"""Whether layers of a kind, by transformers' names, have keys and values in the cache; others have a state."""


def row_shapes(config: PreTrainedConfig) -> dict[int, tuple[int, int]]:
    """Of each layer that attends, key-value heads and numbers of each: in Gemma 4 some layers differ from others.

    KeyError for a kind of layers that is not known here.
    """
    own, kinds = config.per_layer_config, getattr(config, "layer_types", None) or ()
    numbers = range(config.num_hidden_layers)
    layers = {number: own[number] for number in numbers if not kinds or ATTENDS[kinds[number]]}
    return {
        number: (
            getattr(layer, "num_key_value_heads", None) or layer.num_attention_heads,
            getattr(layer, "head_dim", None) or layer.hidden_size // layer.num_attention_heads,
        )
        for number, layer in layers.items()
    }


def key_sources(config: PreTrainedConfig) -> list[int]:
    """Of each layer, the one whose keys it attends to: its own, but for the last `num_kv_shared_layers` (Gemma 3n, 4).

    Those attend to the keys of the last layer of their kind before them.
    """
    layers, kinds = config.num_hidden_layers, getattr(config, "layer_types", None) or ()
    own = layers - (getattr(config, "num_kv_shared_layers", None) or 0)
    last = {kind: number for number, kind in enumerate(kinds[:own])}
    return [number if number < own else last[kinds[number]] for number in range(layers)]


class _Layer(DynamicLayer):
    """The view that a layer, by its number in the model, has of a `KVCache`."""

    def __init__(self, cache: KVCache, number: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.cache, self.number = cache, number

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """Write the reserved rows, of a batch one of each; views [used, heads, end, d] of all keys and values."""
        cache = self.cache
        keys, values = cache.of_layer(self.number)
        if cache.is_batch:
            keys[cache.at, :, cache.lengths] = key_states[:, :, 0]
            values[cache.at, :, cache.lengths] = value_states[:, :, 0]
        else:
            keys[:, :, cache.start : cache.end] = key_states
            values[:, :, cache.start : cache.end] = value_states
        return keys[:, :, : cache.end], values[:, :, : cache.end]

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Keys visible to the current forward, and their offset."""
        return self.cache.end, 0

    def get_seq_length(self) -> int:
        """Committed rows, of a batch those of its longest sequence."""
        return self.cache.length


class KVCache(Cache):
    """Keys and values of one sequence; with `slots`, of a batch of sequences that grow side by side.

    `buffers` are [2, layers, slots, kv_heads, capacity, head_dim], one for each shape of rows that layers have: nearly
    always one. `buffer_of` has, by the number of each layer that attends, the buffer of its keys and their number
    there: some have those of another layer. `states` has those of the layers that do not attend.

    Of one sequence, rows [0, length) are committed. A forward's rows lie in [start, end), after them, until `commit`
    or `rollback`.

    Of a batch, the first `used` slots have sequences, and `length` is that of the longest. `lengths` [used] are those
    of all, on the device; a forward writes the row of each that follows, and `grow` commits it.
    """

    def __init__(
        self,
        config: PreTrainedConfig,
        *,
        slots: int | None = None,
        capacity: int,
        dtype: torch.dtype,
        device: torch.device | str,
    ) -> None:
        self.is_batch, self.slots = slots is not None, 1 if slots is None else slots
        shapes, sources = row_shapes(config), key_sources(config)
        owners: dict[tuple[int, int], list[int]] = {}  # layers with keys of their own, by the shape of their rows
        for number, shape in shapes.items():
            if sources[number] == number:
                owners.setdefault(shape, []).append(number)
        own = {number: (i, at) for i, alike in enumerate(owners.values()) for at, number in enumerate(alike)}
        self.buffer_of = {number: own[sources[number]] for number in shapes}
        empty = torch.empty(0, dtype=dtype, device=device)
        self.device, self.dtype = empty.device, empty.dtype
        self.buffers = [
            empty.new_empty(2, len(alike), self.slots, heads, 0, width) for (heads, width), alike in owners.items()
        ]
        self.used = 1
        self.length = self.start = self.end = 0
        self.make_room(max(capacity, 1))
        layers: list[Any] = [
            _Layer(self, number) if number in shapes else RecurrentLayer(is_batch=self.is_batch)
            for number in range(config.num_hidden_layers)
        ]
        states = [layer for layer in layers if isinstance(layer, RecurrentLayer)]
        self.states = RecurrentStates(states, slots)
        self._rows: list[int] = []  # `lengths` on the host
        if self.is_batch:
            self._seat()
        super().__init__(layers=layers)

    @property
    def capacity(self) -> int:
        """Rows per layer and head that there is memory for."""
        return min(buffer.shape[4] for buffer in self.buffers)  # they differ when memory ran out for one of them

    @property
    def nbytes(self) -> int:
        """Memory of the rows; `states.nbytes` is that of the states."""
        return sum(buffer.nbytes for buffer in self.buffers)

    def of_layer(self, number: int) -> Tensor:
        """A view [2, used, kv_heads, capacity, head_dim] of all rows that the layer of this number attends to."""
        buffer, index = self.buffer_of[number]
        return self.buffers[buffer][:, index, : self.used]

    def begin(self, capacity: int) -> None:
        """Forget everything; make room for `capacity` tokens."""
        self.rollback(0)
        capacity += _SPARE if self.device.type == "cuda" else 0
        if self.capacity < capacity:
            # Old ones are freed before new ones are allocated.
            self.buffers = [old.new_empty(*old.shape[:4], 0, old.shape[5]) for old in self.buffers]
            self.make_room(capacity)

    def reserve(self, rows: int) -> None:
        """Room for a forward of `rows` tokens after those already reserved."""
        self.start, self.end = self.end, self.end + rows
        self.make_room(self.end)

    def make_room(self, rows: int) -> None:
        """Have memory for at least so many rows. Those before `start` stay; of a batch, the others are zeros."""
        if rows <= self.capacity:
            return
        rows = max(rows, self.capacity + self.capacity // 2)
        for i, old in enumerate(self.buffers):
            *outer, _, width = old.shape
            new = in_large_pages(old.new_empty(*outer, -(-rows // _ROUND) * _ROUND, width))
            if self.is_batch:  # what is masked has to be numbers
                new.zero_()
            new[..., : self.start, :] = old[..., : self.start, :]
            self.buffers[i] = new

    def commit(self, path: Sequence[int] | None = None) -> slice | Tensor:
        """Commit the reserved rows, or of them those at the ascending offsets `path`, and forget the others.

        Returns an index of them among those rows: a slice where they lie in place, else `path` on the device. With
        states, these are all rows of a block, the first ones of a chain, or nodes of a tree that a CUDA graph computed;
        RuntimeError for others.
        """
        self.states.commit(path)
        path = range(self.end - self.length) if path is None else path
        moved = next((i for i, row in enumerate(path) if row != i), len(path))  # rows in place need no copy
        if moved == len(path):
            self.length = self.start = self.end = self.length + moved
            return slice(moved)
        index = upload(path, self.device)
        kept = self.gather(index[moved:] + self.length)
        self.end = self.length + moved
        self.append(kept)
        return index

    def rollback(self, length: int | None = None) -> None:
        """Forget every row after the committed ones, or after the first `length` of them.

        With states, `length` is 0 or was given to `states.mark`; RuntimeError if not.
        """
        self.states.drop()
        length = self.length if length is None else length
        if length != self.length or not length:
            self.states.rollback(length)
        self.length = self.start = self.end = length

    def rows(self, start: int, end: int) -> list[Tensor]:
        """Views [2, layers, slots, kv_heads, end - start, head_dim] of each of `buffers`."""
        return [buffer[..., start:end, :] for buffer in self.buffers]

    def gather(self, positions: Tensor) -> list[Tensor]:
        """Copies [2, layers, slots, kv_heads, n, head_dim] of the rows at `positions` [n] in each of `buffers`."""
        return [buffer.index_select(4, positions) for buffer in self.buffers]

    def append(self, rows: Sequence[Tensor]) -> None:
        """Commit rows, as `gather` returns them, that were computed elsewhere; states are as they were."""
        self.reserve(rows[0].shape[4])
        for into, computed in zip(self.rows(self.start, self.end), rows, strict=True):
            into.copy_(computed)
        self.length = self.start = self.end

    def add(self, read: KVCache) -> None:
        """Copy a prompt's cache into the next slot."""
        slot = slice(self.used, self.used + 1)
        for buffer, rows in zip(self.buffers, read.rows(0, read.length), strict=True):
            buffer[:, :, slot, :, : read.length] = rows
        self.states.add(self.used, read.states)
        self._rows.append(read.length)
        self._seat()

    def drop(self, slot: int) -> None:
        """Free a slot; the last one moves there."""
        last, length = self.used - 1, self._rows.pop()
        if slot < last:
            for buffer in self.buffers:
                buffer[:, :, slot, :, :length] = buffer[:, :, last, :, :length]
            self.states.move(last, slot)
            self._rows[slot] = length
        self._seat()

    def _seat(self) -> None:
        """What follows of the sequences in the slots."""
        self.used, self.length = len(self._rows), max(self._rows, default=0)
        self.start, self.end = self.length, self.length + 1
        self.lengths = upload(self._rows, self.device)
        self.at = torch.arange(self.used, device=self.device)
        self.states.use(self.used)

    def grow(self) -> None:
        """Every sequence is one row longer."""
        self._rows = [rows + 1 for rows in self._rows]
        self.lengths = self.lengths + 1
        self.length, self.start, self.end = self.end, self.end, self.end + 1

    def mask(self) -> Tensor | None:
        """The rows up to each sequence's new one, bool [used, longest + 1]; None if that is all of them."""
        if min(self._rows) == self.length:
            return None
        return torch.arange(self.end, device=self.device) <= self.lengths[:, None]
