"""States of recurrent layers: gated delta nets, Mamba-2, short convolutions. One state stands for all tokens before.

Keys of rejected nodes are overwritten; a state has to be as it was. Layers here never change a state in place: a block
of tokens leads to a new one, which takes the place of the committed one when the block is kept. In a draft tree every
node goes on from its parent's state, level by level (`scans.py`). Of a verified tree the layers' inputs are kept, not a
state for each node, which would take megabytes a layer: a cut back repeats the recurrence along the accepted path,
without the matrix products around it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor
from torch.nn.functional import pad
from transformers.cache_utils import LinearAttentionCacheLayerMixin

from specextend_cli.engine.transfer import upload


class State(NamedTuple):
    """What a layer needs to go on after a token, by transformers' numbers of its states.

    `conv`: the newest inputs of its convolution, [1, channels, kernel size]; `recurrent`: [1, ...].
    """

    conv: dict[int, Tensor]
    recurrent: dict[int, Tensor]

    @property
    def nbytes(self) -> int:
        """Memory held."""
        return sum(part.nbytes for part in (*self.conv.values(), *self.recurrent.values()))


_NOTHING = State({}, {})


class Level(NamedTuple):
    """Nodes of one depth: `rows` [w] of the forward, `parents` [w] among the level before, on the device.

    `above` [w] are the parents' numbers in the tree, counted from 1; 0 is the state before the tree.
    """

    rows: Tensor
    parents: Tensor
    above: Tensor


class Rows:
    """The uncommitted rows of a cache, which all of its layers share: blocks that continue, then a tree."""

    def __init__(self) -> None:
        self.block = 0
        """Rows that follow the committed ones in order."""
        self.tree = 0
        """Rows of the tree behind them."""
        self.count = 0
        """Rows of the present forward."""
        self.levels: list[Level] = []
        """Of the present forward; none for a block."""
        self.layer: RecurrentLayer | None = None
        """The one that is computed."""
        self._places: list[tuple[int, int]] = []  # of the tree's rows: depth from 1, place in its level
        self._windows: dict[int, Tensor] = {}

    def add_block(self, rows: int) -> None:
        """A forward of `rows` tokens in order. RuntimeError behind a tree."""
        if self.tree:
            raise RuntimeError("a block of tokens cannot follow an uncommitted tree")
        self.block, self.count, self.levels = self.block + rows, rows, []

    def add_tree(self, rows: int, parents: Sequence[int] | Tensor, device: torch.device) -> None:
        """A forward of nodes. A tensor [rows]: one level, `parents` among the level before (or all 0: the root's).

        A sequence: numbers of rows in the tree, -1 for what continues the sequence before it.
        """
        start, self.count = self.tree, rows
        depth = self.depth
        if isinstance(parents, Tensor):
            first = next((row for row, (at, _) in enumerate(self._places) if at == depth), None)
            above = torch.zeros_like(parents) if first is None else parents + first + 1
            self.levels = [Level(torch.arange(rows, device=device), parents, above)]
            self._places += [(depth + 1, place) for place in range(rows)]
        else:
            found: dict[int, list[tuple[int, int, int]]] = {}
            for row, parent in enumerate(parents):
                at, place = self._places[parent] if parent >= 0 else (0, 0)
                level = found.setdefault(at + 1, [])
                self._places.append((at + 1, len(level)))
                level.append((row, place, parent + 1))
            if start and min(found) <= depth:
                raise RuntimeError("nodes of a tree's earlier levels cannot follow its later ones")
            self.levels = [
                Level(*torch.tensor(found[at]).T.contiguous().to(device, non_blocking=True)) for at in sorted(found)
            ]
        self.tree += rows

    def windows(self, size: int) -> Tensor:
        """Of every row of the present forward, the columns [rows, size] that its convolution sees.

        Columns 0 to size - 1 are those before the tree, column size + i is row i of the tree.
        """
        start = self.tree - self.count
        known = self._windows.get(size)
        if known is None:
            device = self.levels[0].rows.device
            known = torch.arange(size, device=device)[None]
        if len(known) == start + 1:
            own = torch.arange(self.count, device=known.device)
            known = torch.cat((known, known.new_zeros(self.count, size)))
            for level in self.levels:
                new = torch.cat((known[level.above, 1:], (own[level.rows] + size + start)[:, None]), 1)
                known[level.rows + start + 1] = new
            self._windows[size] = known
        return known[start + 1 :]

    @property
    def depth(self) -> int:
        """Levels of the tree."""
        return max((depth for depth, _ in self._places), default=0)

    def place(self, row: int) -> tuple[int, int]:
        """Depth from 1 and place in its level of a row of the tree."""
        return self._places[row]

    def clear(self) -> None:
        """They are committed or dropped."""
        self.block = self.tree = self.count = 0
        self.levels, self._places, self._windows, self.layer = [], [], {}, None


_RUNNING: ContextVar[Rows | None] = ContextVar("recurrent rows", default=None)


def running() -> Rows | None:
    """The rows of the forward that runs in this thread, if they are a tree of several."""
    return _RUNNING.get()


Along: TypeAlias = Callable[[Sequence[int], Tensor | None], Tensor]
"""A layer's recurrence over a verified tree: (path, state before the tree) -> state after the rows `path`."""


class RecurrentLayer(LinearAttentionCacheLayerMixin):
    """One layer's states in a cache, by transformers' interface of such caches."""

    def __init__(self, rows: Rows, states: int = 1) -> None:
        super().__init__(number_of_states=states)
        self.record_past = True  # single tokens, too, leave the states alone
        self.rows = rows
        self.state = _NOTHING  # after the committed tokens
        self._block: State | None = None  # after the uncommitted blocks
        self._new = _NOTHING  # what the present forward leads to
        self._is_functional = False  # whether single tokens are known to change no state in place
        self.level: dict[int, Tensor] = {}
        """The states [w, ...] of the newest level of a tree."""
        self.recorded: dict[int, Along] = {}
        self._columns: dict[int, Tensor] = {}  # of convolutions: inputs before a tree and in it [channels, columns]

    @property
    def base(self) -> State:
        """The state before a tree."""
        return self._block or self.state

    def start(self) -> None:
        """A forward of `rows.count` tokens begins."""
        rows, base = self.rows, self.base
        if not rows.levels:
            self._new = State({}, {})
            handed = {
                i: state.clone() if rows.count == 1 and not self._is_functional else state
                for i, state in base.recurrent.items()
            }
        else:
            if rows.tree == rows.count:
                self.level = dict(base.recurrent)
            # The parent's state, as a copy; of several rows each has its own, and this one only says that there is one.
            first = rows.levels[0].parents[:1]
            handed = {i: level.index_select(0, first) if rows.count == 1 else level for i, level in self.level.items()}
        for i in range(self.number_of_states):
            self.conv_states[i], self.recurrent_states[i] = base.conv.get(i), handed.get(i)
            self.has_previous_state[i] = bool(base.conv)

    def lazy_initialization(self, *args: Any, **kwargs: Any) -> None:
        """Nothing to do."""

    def update_conv_state(self, conv_states: Tensor, state_idx: int = 0, **kwargs: Any) -> Tensor:
        """Take the new inputs [1, channels, n] of a convolution; what it has to read to compute its output.

        Of a block, these behind the inputs before them, [1, channels, m]. Of a tree, each row's window [n, channels,
        size].
        """
        rows, before = self.rows, self.base.conv.get(state_idx)
        rows.layer = self
        size = int(kwargs.get("conv_kernel_size") or conv_states.shape[-1])
        if not rows.levels:
            whole = conv_states if before is None else torch.cat((before, conv_states), -1)
            kept = whole[..., -size:]
            self._new.conv[state_idx] = pad(kept, (size - kept.shape[-1], 0)).clone()
            return whole
        if rows.tree == rows.count:
            first = conv_states.new_zeros(conv_states.shape[1], size) if before is None else before[0]
            self._columns[state_idx] = first
        self._columns[state_idx] = torch.cat((self._columns[state_idx], conv_states[0]), -1)
        return self._columns[state_idx][:, rows.windows(size)].transpose(0, 1)

    def update_recurrent_state(self, recurrent_states: Tensor, state_idx: int = 0, **kwargs: Any) -> Tensor:
        """The state that the layer computed; in a tree of several rows it is that of no row, and dropped."""
        if not self.rows.levels:
            self._new.recurrent[state_idx] = recurrent_states
            self._is_functional |= self.rows.count == 1 and recurrent_states is not self.recurrent_states[state_idx]
        elif self.rows.count == 1:
            self.recurrent_states[state_idx] = recurrent_states
        return recurrent_states

    def finish(self) -> None:
        """The forward has ended."""
        # A single token's state may have been changed where it lay: it was a copy.
        given = {i: state for i, state in self.recurrent_states.items() if state is not None}
        if not self.rows.levels:
            if self.rows.count == 1:
                given |= self._new.recurrent
                self._new = self._new._replace(recurrent=given)
            self._block, self._new = self._new, _NOTHING
        elif self.rows.count == 1:
            self.level = given

    def commit(self) -> None:
        """Keep the uncommitted blocks."""
        self.state, self._block = self.base, None

    @torch.inference_mode()
    def keep(self, path: Sequence[int]) -> None:
        """Keep the rows `path` of the uncommitted tree."""
        depth, place = self.rows.place(path[-1])
        recurrent = {}
        for i, level in self.level.items():
            if depth == self.rows.depth:
                recurrent[i] = level[place : place + 1].clone()
            else:
                recurrent[i] = self.recorded[i](path, self.base.recurrent.get(i))
        conv = {}
        for i, columns in self._columns.items():
            size = columns.shape[-1] - self.rows.tree
            seen = [*range(size), *(size + row for row in path)][-size:]
            conv[i] = columns[None].index_select(2, upload(seen, columns.device))
        self.state = State(conv, recurrent)

    def drop(self) -> None:
        """Forget what is uncommitted."""
        self._block, self.level, self.recorded, self._columns = None, {}, {}, {}

    def get_max_length(self) -> int:
        """No maximum."""
        return -1


class RecurrentStates:
    """The states of a cache's recurrent layers after its committed tokens; no layers: nothing to do."""

    def __init__(self) -> None:
        self.rows = Rows()
        self.layers: list[RecurrentLayer] = []
        self._marked: tuple[int, list[State]] = 0, []

    def __bool__(self) -> bool:
        return bool(self.layers)

    @property
    def nbytes(self) -> int:
        """Memory of the committed states."""
        return sum(layer.state.nbytes for layer in self.layers)

    def begin_forward(self, rows: int, parents: Sequence[int] | Tensor | None, device: torch.device) -> None:
        """A forward of so many rows: a block, or with `parents` nodes of a tree (see `Rows.add_tree`)."""
        if parents is None:
            self.rows.add_block(rows)
        else:
            self.rows.add_tree(rows, parents, device)

    @contextmanager
    def forward(self) -> Iterator[None]:
        """While the layers compute the forward."""
        if not self.layers:
            yield
            return
        for layer in self.layers:
            layer.start()
        token = _RUNNING.set(self.rows if self.rows.levels and self.rows.count > 1 else None)
        try:
            yield
        finally:
            _RUNNING.reset(token)
        for layer in self.layers:
            layer.finish()

    def commit(self) -> None:
        """Keep the uncommitted blocks."""
        if not self.layers:
            return
        if self.rows.tree:
            raise RuntimeError("which nodes of a tree are kept has to be said")
        for layer in self.layers:
            layer.commit()
        self.drop()

    def keep(self, path: Sequence[int]) -> None:
        """Keep the rows `path`: all of a block, or nodes of a tree from its root on."""
        if not self.layers:
            return
        if not self.rows.tree:
            if len(path) != self.rows.block:
                raise RuntimeError("a block of tokens is kept as a whole: its layers have one state, after the last")
            self.commit()
            return
        if self.rows.block:
            raise RuntimeError("an uncommitted block is behind the tree")
        if path:
            for layer in self.layers:
                layer.keep(path)
        self.drop()

    def drop(self) -> None:
        """Forget what is uncommitted."""
        for layer in self.layers:
            layer.drop()
        self.rows.clear()

    def mark(self, length: int) -> None:
        """Remember the states after the `length` committed tokens."""
        self._marked = length, [layer.state for layer in self.layers]

    def is_marked(self, length: int) -> bool:
        """Whether the states after so many tokens are remembered."""
        return length == 0 or (bool(self._marked[1]) and self._marked[0] == length)

    def rollback(self, length: int) -> None:
        """Go back to the first `length` tokens. RuntimeError where their states are not remembered."""
        if not self.layers:
            return
        if not self.is_marked(length):
            raise RuntimeError(f"the states after {length} tokens are not known any more")
        for number, layer in enumerate(self.layers):
            layer.state = self._marked[1][number] if length else _NOTHING
        if not length:
            self._marked = 0, []

    def take(self, other: RecurrentStates) -> None:
        """Those of another cache of the model, whose committed tokens are the same."""
        for own, their in zip(self.layers, other.layers, strict=True):
            own.state = their.state
