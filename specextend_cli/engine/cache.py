"""The key-value cache: one buffer for all layers, written by index, kept along a path, gathered into a working set.

transformers' dynamic cache concatenates on every step, and its static cache cannot drop rejected rows. Here a forward
first reserves rows, the layers fill them and get a view of everything up to their end. Accepted rows are then moved to
the front of the reserved ones in one gather over all layers; the others are overwritten later. Layers with a state have
it here, too (`recurrent.py`); layers that do not attend have no rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from transformers import PreTrainedConfig
from transformers.cache_utils import Cache, CacheLayerMixin

from specextend_cli.engine.recurrent import RecurrentLayer, RecurrentStates
from specextend_cli.engine.recurrent_rows import Rows
from specextend_cli.engine.transfer import in_large_pages, upload

_SPARE = 192  # rows on GPUs beyond those asked for: CUDA graphs write up to so many that nobody reads
_ROUND = 256  # rows; capacities are rounded up, so that a few tokens more do not move the buffer


class LayerKind(NamedTuple):
    """Whether a layer has keys and values in the cache, and whether it has a state."""

    attends: bool
    recurs: bool


LAYER_KINDS = {
    "full_attention": LayerKind(attends=True, recurs=False),
    "sliding_attention": LayerKind(attends=True, recurs=False),
    "linear_attention": LayerKind(attends=False, recurs=True),
    "conv": LayerKind(attends=False, recurs=True),
    "hybrid": LayerKind(attends=True, recurs=True),
    "moe": LayerKind(attends=False, recurs=False),
    "mlp": LayerKind(attends=False, recurs=False),
}
"""By transformers' names for them."""


def layer_kinds(config: PreTrainedConfig) -> list[LayerKind]:
    """Of every layer. KeyError for a kind that is not known here."""
    names = getattr(config, "layer_types", None) or ["full_attention"] * config.num_hidden_layers
    return [LAYER_KINDS[name] for name in names[: config.num_hidden_layers]]


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


class NoLayer:
    """Stands for a layer that keeps nothing: experts, an MLP. The oldest transformers has no class for it."""

    def get_max_length(self) -> int:
        """No maximum."""
        return -1


class _Layer(BufferLayer):
    """One layer's view of a `KVCache`; `index` counts the layers that attend."""

    def __init__(self, cache: KVCache, index: int) -> None:
        super().__init__()
        self.cache, self.index = cache, index

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """Write the reserved rows; views [1, heads, end, d] of all keys and values so far."""
        cache = self.cache
        keys, values = cache.buffer[:, self.index]
        keys[:, cache.start : cache.end] = key_states[0]
        values[:, cache.start : cache.end] = value_states[0]
        return keys[None, :, : cache.end], values[None, :, : cache.end]

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Keys visible to the current forward, and their offset."""
        return self.cache.end, 0

    def get_seq_length(self) -> int:
        """Committed rows."""
        return self.cache.length


class _LayerWithState(RecurrentLayer, _Layer):  # type: ignore[override]
    """A layer that attends and has a state beside."""

    def __init__(self, cache: KVCache, index: int, rows: Rows, states: int) -> None:
        _Layer.__init__(self, cache, index)
        RecurrentLayer.__init__(self, rows, states)


class KVCache(Cache):
    """Keys and values of one sequence, [2, layers, kv_heads, capacity, head_dim], of one of `parts` of the heads.

    Its layers are those that attend: `attending` has their numbers in the model. `states` has the others'.
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
        parts: int = 1,
    ) -> None:
        heads = (getattr(config, "num_key_value_heads", None) or config.num_attention_heads) // parts
        head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        kinds = layer_kinds(config)
        self.attending = [number for number, kind in enumerate(kinds) if kind.attends]
        self.states = RecurrentStates()
        shape = (2, len(self.attending), heads, _rounded(capacity), head_dim)
        self.buffer = in_large_pages(torch.empty(shape, dtype=dtype, device=device))
        self.length = self.start = self.end = 0
        self.positions: Tensor | None = None
        states = getattr(config, "number_of_conv_states", 1)
        super().__init__(layers=[self._layer(number, kind, states) for number, kind in enumerate(kinds)])

    def _layer(self, number: int, kind: LayerKind, states: int) -> Any:
        """What transformers sees of a layer."""
        if not kind.recurs:
            return _Layer(self, self.attending.index(number)) if kind.attends else NoLayer()
        layer = RecurrentLayer(self.states.rows, states)
        if kind.attends:
            layer = _LayerWithState(self, self.attending.index(number), self.states.rows, states)
        self.states.layers.append(layer)
        return layer

    @property
    def capacity(self) -> int:
        """Rows per layer and head that there is memory for."""
        return self.buffer.shape[3]

    @property
    def nbytes(self) -> int:
        """Memory of the rows; `states.nbytes` is that of the states."""
        return self.buffer.numel() * self.buffer.element_size()

    def keys(self, layer: int) -> Tensor:
        """A view [kv_heads, length, head_dim] of the committed keys of a layer that attends."""
        return self.buffer[0, self.attending.index(layer), :, : self.length]

    def begin(self, capacity: int) -> None:
        """Forget everything; make room for `capacity` tokens."""
        self.rollback(0)
        capacity += _SPARE if self.buffer.device.type == "cuda" else 0
        if self.capacity < capacity:
            *outer, _, head_dim = self.buffer.shape
            self.buffer = self.buffer.new_empty(0)  # frees the old buffer before the new one is allocated
            self.buffer = in_large_pages(self.buffer.new_empty(*outer, _rounded(capacity), head_dim))

    def reserve(
        self, rows: int, parents: Sequence[int] | Tensor | None = None, *, computes_states: bool = True
    ) -> None:
        """Room for a forward of `rows` tokens after those already reserved.

        Layers with states read `parents`: whose states nodes of a tree go on from (see `Rows.add`). Not
        `computes_states`: they do not take part.
        """
        if self.states and computes_states:
            self.states.rows.add(rows, parents, self.buffer.device)
        self.start, self.end = self.end, self.end + rows
        if self.end > self.capacity:
            larger = _rounded(max(self.end, self.capacity + self.capacity // 2))
            buffer = in_large_pages(self.buffer.new_empty(*self.buffer.shape[:3], larger, self.buffer.shape[4]))
            buffer[..., : self.start, :] = self.buffer[..., : self.start, :]
            self.buffer = buffer

    def commit(self) -> None:
        """Keep every reserved row. With states, none of them is a tree's."""
        self.states.commit()
        self.length = self.start = self.end

    def keep(self, path: Sequence[int]) -> slice | Tensor:
        """Of the rows after the committed ones, keep those at the ascending offsets `path`; forget the others.

        Returns an index of them among those rows: a slice where they lie in place, else `path` on the device. With
        states, these are all rows of a block, or nodes of a tree from its root on.
        """
        self.states.keep(path)
        index: slice | Tensor = slice(len(path))
        moved = next((i for i, row in enumerate(path) if row != i), len(path))  # rows in place need no copy
        if moved < len(path):
            index = upload(path, self.buffer.device)
            at = self.length + moved
            self.buffer[..., at : self.length + len(path), :] = self.buffer.index_select(3, index[moved:] + self.length)
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

    def rows(self, start: int, end: int) -> Tensor:
        """A view [2, layers, kv_heads, end - start, head_dim]."""
        return self.buffer[..., start:end, :]

    def gather(self, positions: Tensor) -> Tensor:
        """A copy [2, layers, kv_heads, n, head_dim] of the rows at `positions` [n]."""
        return self.buffer.index_select(3, positions)

    def mark(self) -> None:
        """Remember what is committed, so that `rollback` can go back to it; only states need it."""
        if self.states:
            self.states.mark(self.length)

    def can_roll_back(self, length: int) -> bool:
        """Whether `rollback` can go back to the first `length` committed tokens."""
        return length <= self.length and (not self.states or self.states.is_marked(length))

    def append(self, rows: Tensor, states: RecurrentStates | None = None) -> None:
        """Commit rows [2, layers, kv_heads, n, head_dim] that were computed elsewhere, and the states after them."""
        self.reserve(rows.shape[3])
        self.rows(self.start, self.end).copy_(rows)
        if states is not None:
            self.states.take(states)
        self.states.drop()
        self.length = self.start = self.end


def _rounded(rows: int) -> int:
    return -(-max(rows, 1) // _ROUND) * _ROUND
