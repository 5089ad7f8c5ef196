"""States of recurrent layers: gated delta nets, Mamba-2, short convolutions. One state stands for all tokens before.

Keys of rejected nodes are overwritten; a state has to be as it was. Layers here never change a state in place: a block
of tokens leads to a new one, which takes the place of the committed one when the block is kept. In a draft tree every
node goes on from its parent's state, level by level (`scans.py`). Of a verified tree the layers' inputs are kept, not a
state for each node, which would take megabytes a layer: a cut back repeats the recurrence along the accepted path,
without the matrix products around it.

CUDA graphs read committed states where they lie, and write new ones beside them (`Home`, `RecurrentStates.place`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from operator import itemgetter
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor
from torch.nn.functional import pad
from transformers.cache_utils import LinearAttentionCacheLayerMixin

from specextend_cli.engine.recurrent_rows import Rows, computing
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

    def made(self, make: Callable[[Tensor], Tensor]) -> State:
        """What `make` makes of each part."""
        return State(*({i: make(part) for i, part in parts.items()} for parts in self))


_NOTHING = State({}, {})


Along: TypeAlias = Callable[[Tensor, Tensor | None], Tensor]
"""A layer's recurrence over a verified tree: (path [m], state before the tree) -> state after the rows `path`."""


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

    def convolved(self, outputs: Tensor) -> Tensor:
        """Outputs [n, channels] of a tree's rows as the layer wants them: [1, channels, n]."""
        return outputs.T[None]

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

    def keep(self, last: int, path: Tensor) -> None:
        """Keep the rows `path` [m] of the uncommitted tree, of which the host knows the `last`."""
        depth, place = self.rows.place(last)
        recurrent = {}
        for i, level in self.level.items():
            if depth == self.rows.depth:
                recurrent[i] = level[place : place + 1].clone()
            else:
                recurrent[i] = self.recorded[i](path, self.base.recurrent.get(i))
        conv = {}
        for i, columns in self._columns.items():
            size = columns.shape[-1] - self.rows.tree
            conv[i] = columns[None].index_select(2, self.rows.window(last, size))
        self.state = State(conv, recurrent)

    def drop(self) -> None:
        """Forget what is uncommitted."""
        self._block, self.level, self.recorded, self._columns = None, {}, {}, {}


class Home:
    """Memory for the states of all layers, `states` by layer, each [slots, ...]; what lies there may be changed.

    `addresses` are those of the first layer's states of its convolution and of its recurrence (0 without): the other
    layers' follow. None where layers differ, have several states, or recurrences that are not in single precision.
    """

    def __init__(self, like: Sequence[State], slots: int = 1) -> None:
        first, count = like[0], len(like)
        kinds = {tuple((i, part.shape) for parts in state for i, part in parts.items()) for state in like}
        wide = all(part.dtype == torch.float32 for part in first.recurrent.values())
        if len(kinds) > 1 or first.conv.keys() != {0} or not first.recurrent.keys() <= {0} or not wide:
            self.states = [each.made(lambda part: part.new_zeros(slots, *part.shape[1:])) for each in like]
            self.addresses: tuple[int, int] | None = None
            return
        self._whole = first.made(lambda part: part.new_zeros(count, slots, *part.shape[1:]))
        self.states = [self._whole.made(itemgetter(number)) for number in range(count)]
        self.addresses = self._whole.conv[0].data_ptr(), self._whole.recurrent[0].data_ptr() if first.recurrent else 0

    def take(self, states: Sequence[State]) -> None:
        """Copy states [1, ...] that lie elsewhere."""
        for kind in (0, 1):
            for i, part in self._whole[kind].items():
                torch.stack([state[kind][i] for state in states], out=part)


class RecurrentStates:
    """The states of a cache's recurrent layers after its committed tokens; no layers: nothing to do."""

    def __init__(self) -> None:
        self.rows = Rows()
        self.layers: list[RecurrentLayer] = []
        self._marked: tuple[int, list[State]] = 0, []
        self._homes: list[Home] = []  # two, which take turns: a step writes into the one that it does not read
        self._is_home = False  # whether the committed states lie in the first
        self._placed = 0  # uncommitted rows of a forward that read the states there
        self._keep_row: Callable[[int], None] | None = None

    def __bool__(self) -> bool:
        return bool(self.layers)

    @property
    def nbytes(self) -> int:
        """Memory of the committed states."""
        return sum(layer.state.nbytes for layer in self.layers)

    @contextmanager
    def forward(self) -> Iterator[None]:
        """While the layers compute the forward."""
        if not self.layers:
            yield
            return
        for layer in self.layers:
            layer.start()
        with computing(self.rows if self.rows.levels and self.rows.count > 1 else None):
            yield
        for layer in self.layers:
            layer.finish()

    def place(self) -> tuple[int, ...] | None:
        """Where the committed states lie, one layer behind the other, for a forward that reads them there.

        Slots of a layer; how far the next sequence is from one, in slots; the addresses of the convolutions' and the
        recurrences' states (0 if there are none), then where the new ones are to go. None where none are committed, or
        other rows are uncommitted.
        """
        if self.rows.block or self.rows.tree or self._placed or not self.layers[0].state.conv:
            return None
        states = [layer.state for layer in self.layers]
        self._homes = self._homes or [Home(states), Home(states)]
        old, new = self._homes
        if old.addresses is None or new.addresses is None:
            return None
        if not self._is_home:
            old.take(states)
            self._set(old.states)
            self._is_home = True
        return 1, 0, *old.addresses, *new.addresses

    def wait(self, rows: int, keep: Callable[[int], None]) -> None:
        """A forward of so many rows has read the states at their place; `keep` puts those after a row into the new."""
        self._placed, self._keep_row = rows, keep

    def _set(self, states: Sequence[State]) -> None:
        for layer, state in zip(self.layers, states, strict=True):
            layer.state = state

    def _copies(self) -> list[State]:
        """The committed states, which nothing changes."""
        return [layer.state.made(Tensor.clone) if self._is_home else layer.state for layer in self.layers]

    def commit(self) -> None:
        """Keep the uncommitted blocks."""
        if not self.layers:
            return
        if self._placed == 1:
            self.keep((0,))
            return
        if self.rows.tree or self._placed:
            raise RuntimeError("which nodes of a tree are kept has to be said")
        self._is_home &= not self.rows.block
        for layer in self.layers:
            layer.commit()
        self.drop()

    @torch.inference_mode()
    def keep(self, path: Sequence[int]) -> None:
        """Keep the rows `path`: all of a block, or nodes of a tree from its root on."""
        if not self.layers:
            return
        if self._keep_row is not None:
            if path:
                self._keep_row(path[-1])
                self._homes.reverse()
                self._set(self._homes[0].states)
            self.drop()
            return
        if not self.rows.tree:
            if len(path) != self.rows.block:
                raise RuntimeError("a block of tokens is kept as a whole: its layers have one state, after the last")
            self.commit()
            return
        if self.rows.block:
            raise RuntimeError("an uncommitted block is behind the tree")
        if path:
            index = upload(path, self.rows.device)
            self._is_home = False
            for layer in self.layers:
                layer.keep(path[-1], index)
        self.drop()

    def drop(self) -> None:
        """Forget what is uncommitted."""
        for layer in self.layers:
            layer.drop()
        self.rows.clear()
        self._placed, self._keep_row = 0, None

    def mark(self, length: int) -> None:
        """Remember the states after the `length` committed tokens."""
        self._marked = length, self._copies()

    def is_marked(self, length: int) -> bool:
        """Whether the states after so many tokens are remembered."""
        return length == 0 or (bool(self._marked[1]) and self._marked[0] == length)

    def rollback(self, length: int) -> None:
        """Go back to the first `length` tokens. RuntimeError where their states are not remembered."""
        if not self.layers:
            return
        if not self.is_marked(length):
            raise RuntimeError(f"the states after {length} tokens are not known any more")
        self._is_home = False
        for number, layer in enumerate(self.layers):
            layer.state = self._marked[1][number] if length else _NOTHING
        if not length:
            self._marked = 0, []

    def take(self, other: RecurrentStates) -> None:
        """Those of another cache of the model, whose committed tokens are the same."""
        self._is_home = False
        self._set(other._copies())
