"""The key-value cache: one buffer for layers alike, written by index, kept along a path, gathered into a working set.

transformers' dynamic cache concatenates on every step, and its static cache cannot drop rejected rows. Here a forward
first reserves rows, the layers fill them and get a view of everything up to their end. Accepted rows are then moved to
the front of the reserved ones in one gather over all layers; the others are overwritten later. Layers with a state have
it here, too (`recurrent.py`); layers that do not attend have no rows.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedConfig
from transformers.cache_utils import Cache, CacheLayerMixin

from specextend_cli.engine.recurrent import RecurrentLayer, RecurrentStates
from specextend_cli.engine.transfer import in_large_pages, upload

_SPARE = 192  # rows on GPUs beyond those asked for: CUDA graphs write up to so many that nobody reads
_ROUND = 256  # rows; capacities are rounded up, so that a few tokens more do not move the buffer


ATTENDS = {"full_attention": True, "sliding_attention": True, "linear_attention": False, "conv": False}
"""Whether layers of a kind, by transformers' names, have keys and values in the cache; others have a state."""


def attending(config: PreTrainedConfig) -> list[bool]:
    """Of every layer, whether it attends. KeyError for a kind that is not known here."""
    names = getattr(config, "layer_types", None) or ["full_attention"] * config.num_hidden_layers
    return [ATTENDS[name] for name in names[: config.num_hidden_layers]]


CACHED_SIZES = ("num_key_value_heads", "head_dim")
"""What transformers calls the settings of which the shape of rows follows."""


def row_shapes(config: PreTrainedConfig) -> list[tuple[int, int]]:
    """Key-value heads, and numbers of each, of each layer that attends: in Gemma 4 some layers differ from others."""
    own = config.per_layer_config
    layers = (own[number] for number, attends in enumerate(attending(config)) if attends)
    return [
        (
            getattr(layer, "num_key_value_heads", None) or layer.num_attention_heads,
            getattr(layer, "head_dim", None) or layer.hidden_size // layer.num_attention_heads,
        )
        for layer in layers
    ]


def key_sources(config: PreTrainedConfig) -> list[int]:
    """Of each layer, the one whose keys it attends to: its own, but for the last `num_kv_shared_layers` (Gemma 3n, 4).

    Those attend to the keys of the last layer of their kind before them.
    """
    layers, kinds = config.num_hidden_layers, getattr(config, "layer_types", None) or ()
    own = layers - (getattr(config, "num_kv_shared_layers", None) or 0)
    last = {kind: number for number, kind in enumerate(kinds[:own])}
    return [number if number < own else last[kinds[number]] for number in range(layers)]


class BufferLayer(CacheLayerMixin):
    """One layer of a cache whose memory exists from the start."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.is_initialized = True

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        """Nothing to do."""

    def get_max_length(self) -> int:
        """No maximum that transformers has to know."""
        return -1


class _Layer(BufferLayer):
    """One layer's view of a `KVCache`; `index` counts the layers that attend."""

    def __init__(self, cache: KVCache, index: int) -> None:
        super().__init__()
        self.cache, self.index = cache, index

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """Write the reserved rows; views [1, heads, end, d] of all keys and values so far."""
        cache = self.cache
        keys, values = cache.of_layer(self.index)
        keys[:, cache.start : cache.end] = key_states[0]
        values[:, cache.start : cache.end] = value_states[0]
        return keys[None, :, : cache.end], values[None, :, : cache.end]

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Keys visible to the current forward, and their offset."""
        return self.cache.end, 0

    def get_seq_length(self) -> int:
        """Committed rows."""
        return self.cache.length


class KVCache(Cache):
    """Keys and values of one sequence.

    `buffers` are [2, layers, kv_heads, capacity, head_dim], one for each shape of rows that layers have: nearly always
    one. Its layers are those that attend: `attending` has their numbers in the model. Some may attend to the keys of
    another one, and have its rows. `states` has those of the layers that do not attend.
    Rows [0, length) are committed. A forward's rows lie in [start, end), after them, until `keep`, `commit` or
    `rollback`. `positions` are those of the first rows, ascending, if they are not 0, 1, 2 and so on; the rows after
    them belong to the positions that follow.
    """

    def __init__(
        self,
        config: PreTrainedConfig,
        *,
        capacity: int,
        dtype: torch.dtype,
        device: torch.device | str,
    ) -> None:
        attends = attending(config)
        self.attending = [number for number, does in enumerate(attends) if does]
        self.states = RecurrentStates()
        sources = key_sources(config)
        owners = {number: i for i, number in enumerate(self.attending) if sources[number] == number}
        shapes = [shape for i, shape in enumerate(row_shapes(config)) if i in owners.values()]
        distinct = list(dict.fromkeys(shapes))
        places = [(distinct.index(one), shapes[:i].count(one)) for i, one in enumerate(shapes)]
        of_owners = dict(zip(owners, places, strict=True))
        self.places = [of_owners[sources[number]] for number in self.attending]
        """Of each layer that attends, the buffer of its keys and their number there."""
        empty = torch.empty(0, dtype=dtype, device=device)
        sizes = [(2, shapes.count((heads, width)), heads, 0, width) for heads, width in distinct]
        self.buffers = [_with_rows(empty.new_empty(size), capacity) for size in sizes]
        self.length = self.start = self.end = 0
        self.positions: Tensor | None = None
        indices = itertools.count()
        layers: list[Any] = [_Layer(self, next(indices)) if does else RecurrentLayer() for does in attends]
        self.states.layers = [layer for layer in layers if isinstance(layer, RecurrentLayer)]
        super().__init__(layers=layers)

    @property
    def buffer(self) -> Tensor:
        """The only one of `buffers`; ValueError if there are several."""
        (only,) = self.buffers
        return only

    @property
    def device(self) -> torch.device:
        """Where the rows lie."""
        return self.buffers[0].device

    @property
    def dtype(self) -> torch.dtype:
        """The rows' number format."""
        return self.buffers[0].dtype

    @property
    def capacity(self) -> int:
        """Rows per layer and head that there is memory for."""
        return min(buffer.shape[3] for buffer in self.buffers)  # they differ when memory ran out for one of them

    @property
    def nbytes(self) -> int:
        """Memory of the rows; `states.nbytes` is that of the states."""
        return sum(buffer.nbytes for buffer in self.buffers)

    def of_layer(self, index: int) -> Tensor:
        """A view [2, kv_heads, capacity, head_dim] of all rows of the layer that attends with number `index`."""
        buffer, number = self.places[index]
        return self.buffers[buffer][:, number]

    def keys(self, layer: int) -> Tensor:
        """A view [kv_heads, length, head_dim] of the committed keys of a layer that attends."""
        return self.of_layer(self.attending.index(layer))[0, :, : self.length]

    def begin(self, capacity: int) -> None:
        """Forget everything; make room for `capacity` tokens."""
        self.rollback(0)
        capacity += _SPARE if self.device.type == "cuda" else 0
        if self.capacity < capacity:
            # Old ones are freed before new ones are allocated; if memory runs out, there are none with rows.
            self.buffers = [old.new_empty(*old.shape[:3], 0, old.shape[4]) for old in self.buffers]
            self.buffers = [_with_rows(old, capacity) for old in self.buffers]

    def reserve(self, rows: int) -> None:
        """Room for a forward of `rows` tokens after those already reserved."""
        self.start, self.end = self.end, self.end + rows
        if self.end > self.capacity:
            larger = max(self.end, self.capacity + self.capacity // 2)
            for i, old in enumerate(self.buffers):
                buffer = _with_rows(old, larger)
                buffer[..., : self.start, :] = old[..., : self.start, :]
                self.buffers[i] = buffer

    def commit(self) -> None:
        """Keep every reserved row. RuntimeError where layers have states, and these are a tree's."""
        self.states.commit()
        self.length = self.start = self.end

    def keep(self, path: Sequence[int]) -> slice | Tensor:
        """Of the rows after the committed ones, keep those at the ascending offsets `path`; forget the others.

        Returns an index of them among those rows: a slice where they lie in place, else `path` on the device. With
        states, these are all rows of a block, the first ones of a chain, or nodes of a tree that a CUDA graph computed.
        """
        self.states.keep(path)
        index: slice | Tensor = slice(len(path))
        moved = next((i for i, row in enumerate(path) if row != i), len(path))  # rows in place need no copy
        if moved < len(path):
            index = upload(path, self.device)
            kept = self.gather(index[moved:] + self.length)
            for into, rows in zip(self.rows(self.length + moved, self.length + len(path)), kept, strict=True):
                into.copy_(rows)
        self.length = self.start = self.end = self.length + len(path)
        return index

    def rollback(self, length: int | None = None) -> None:
        """Forget every row after the committed ones, or after the first `length` of them.

        With states, `length` is 0 or was given to `mark`; RuntimeError if not.
        """
        self.states.drop()
        if length is not None and length != (self.length or None):
            self.states.rollback(length)
        self.length = self.start = self.end = self.length if length is None else length
        if self.length == 0:
            self.positions = None

    def rows(self, start: int, end: int) -> list[Tensor]:
        """Views [2, layers, kv_heads, end - start, head_dim] of each of `buffers`."""
        return [buffer[..., start:end, :] for buffer in self.buffers]

    def gather(self, positions: Tensor) -> list[Tensor]:
        """Copies [2, layers, kv_heads, n, head_dim] of the rows at `positions` [n] in each of `buffers`."""
        return [buffer.index_select(3, positions) for buffer in self.buffers]

    def mark(self) -> None:
        """Remember what is committed, so that `rollback` can go back to it; only states need it."""
        if self.states:
            self.states.mark(self.length)

    def can_roll_back(self, length: int) -> bool:
        """Whether `rollback` can go back to the first `length` committed tokens."""
        return length <= self.length and (not self.states or self.states.is_marked(length))

    def append(self, rows: Sequence[Tensor]) -> None:
        """Commit rows [2, layers, kv_heads, n, head_dim] that were computed elsewhere, of layers without states."""
        self.reserve(rows[0].shape[3])
        for into, computed in zip(self.rows(self.start, self.end), rows, strict=True):
            into.copy_(computed)
        self.length = self.start = self.end


def _with_rows(buffer: Tensor, rows: int) -> Tensor:
    """Another one like it, whatever is in it, with at least so many rows."""
    *outer, _, head_dim = buffer.shape
    return in_large_pages(buffer.new_empty(*outer, -(-max(rows, 1) // _ROUND) * _ROUND, head_dim))
