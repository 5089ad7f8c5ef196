"""States of recurrent layers: gated delta nets, short convolutions. One state stands for all tokens before.

Keys of rejected tokens are overwritten; a state has to be as it was. Layers here never change a state in place: a block
of tokens leads to a new one, which takes the place of the committed one when the block is kept. Of a verified chain of
tokens the layers' inputs are recorded: a cut back repeats the recurrence over the accepted ones, without the matrix
products around it.

CUDA graphs read committed states where they lie, and write new ones beside them (`Home`, `RecurrentStates.place`); they
alone compute trees that branch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from operator import itemgetter
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad
from transformers.cache_utils import LinearAttentionCacheLayerMixin


class State(NamedTuple):
    """What a layer needs to go on after a token; both None before the first one.

    `conv`: the newest inputs of its convolution, [1, channels, kernel size]; `recurrent`: [1, ...], or None where the
    layer is nothing but a convolution.
    """

    conv: Tensor | None
    recurrent: Tensor | None

    @property
    def nbytes(self) -> int:
        """Memory held."""
        return sum(part.nbytes for part in self if part is not None)

    def made(self, make: Callable[[Tensor], Tensor]) -> State:
        """What `make` makes of each part."""
        return State(*(None if part is None else make(part) for part in self))


_NOTHING = State(None, None)


class Running:
    """What the functions of recurrent layers read while a chain, or a captured forward, is computed (`scans.py`).

    `layer` is the cache's layer that is computed.
    """

    layer: Any = None


RUNNING: ContextVar[Running | None] = ContextVar("running recurrent layer", default=None)


@contextmanager
def running() -> Iterator[None]:
    """While a forward is computed whose recurrent layers are followed."""
    token = RUNNING.set(Running())
    try:
        yield
    finally:
        RUNNING.reset(token)


class RecurrentLayer(LinearAttentionCacheLayerMixin):
    """One layer's states in a cache, by transformers' interface of such caches."""

    def __init__(self) -> None:
        super().__init__()
        self.record_past = True  # single tokens, too, leave the states alone
        self.state = _NOTHING  # after the committed tokens
        self._new = _NOTHING  # after the uncommitted ones
        self._columns: Tensor | None = None  # of a chain: the convolution's inputs before and in it [1, channels, m]
        self.recorded: Callable[[int], Tensor] | None = None
        """Of a chain: the recurrence's state after its first rows."""

    def start(self) -> None:
        """A forward begins."""
        self.conv_states[0], self.recurrent_states[0] = self.state
        self.has_previous_state[0] = self.state.conv is not None

    def lazy_initialization(self, *args: Any, **kwargs: Any) -> None:
        """Nothing to do."""

    def update_conv_state(self, conv_states: Tensor, state_idx: int = 0, **kwargs: Any) -> Tensor:
        """Take the new inputs [1, channels, n] of a convolution; these behind those before, [1, channels, m]."""
        size, before = int(kwargs.get("conv_kernel_size") or conv_states.shape[-1]), self.state.conv
        whole = conv_states if before is None else torch.cat((before, conv_states), -1)
        kept = whole[..., -size:]
        self._new = State(pad(kept, (size - kept.shape[-1], 0)).clone(), None)
        if (now := RUNNING.get()) is not None:
            now.layer, self._columns = self, pad(conv_states, (size, 0)) if before is None else whole
        return whole

    def update_recurrent_state(self, recurrent_states: Tensor, state_idx: int = 0, **kwargs: Any) -> Tensor:
        """The state that the layer computed."""
        self._new = self._new._replace(recurrent=recurrent_states)
        return recurrent_states

    def keep(self, rows: int, of: int) -> None:
        """Commit the first `rows` of `of` uncommitted ones; fewer than all only of a chain."""
        self.state = self._new
        if rows < of:
            assert self._columns is not None
            size = self._columns.shape[-1] - of
            conv = self._columns[..., rows : rows + size].clone()
            self.state = State(conv, self.recorded(rows) if self.recorded else None)

    def drop(self) -> None:
        """Forget what is uncommitted."""
        self._new, self._columns, self.recorded = _NOTHING, None, None


class Home:
    """Memory for the states of all layers, `states` by layer, each [slots, ...]; what lies there may be changed.

    `addresses` are those of the first layer's states of its convolution and of its recurrence (0 without): the other
    layers' follow. None where layers differ, or have recurrences that are not in single precision.
    """

    def __init__(self, like: Sequence[State], slots: int = 1) -> None:
        first, count = like[0], len(like)
        kinds = {tuple(None if part is None else part.shape for part in state) for state in like}
        if len(kinds) > 1 or (first.recurrent is not None and first.recurrent.dtype != torch.float32):
            self.states = [each.made(lambda part: part.new_zeros(slots, *part.shape[1:])) for each in like]
            self.addresses: tuple[int, int] | None = None
            return
        self._whole = first.made(lambda part: part.new_zeros(count, slots, *part.shape[1:]))
        self.states = [self._whole.made(itemgetter(number)) for number in range(count)]
        conv, recurrent = (0 if part is None else part.data_ptr() for part in self._whole)
        self.addresses = conv, recurrent

    def take(self, states: Sequence[State]) -> None:
        """Copy states [1, ...] that lie elsewhere."""
        for kind, part in enumerate(self._whole):
            if part is not None:
                torch.stack([state[kind] for state in states], out=part)  # type: ignore[misc]  # all have one


class RecurrentStates:
    """The states of a cache's recurrent layers after its committed tokens; no layers: nothing to do."""

    def __init__(self) -> None:
        self.layers: list[RecurrentLayer] = []
        self._rows = 0  # uncommitted
        self._is_chain = False  # and may be cut
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

    def reserve(self, rows: int, *, is_chain: bool) -> None:
        """A forward of `rows` tokens in order follows; of a chain, fewer of them may be kept.

        RuntimeError: others are uncommitted.
        """
        if self._rows or self._placed:
            raise RuntimeError("recurrent layers go on from committed tokens only")
        self._rows, self._is_chain = rows, is_chain

    @contextmanager
    def forward(self) -> Iterator[None]:
        """While the layers compute the forward."""
        for layer in self.layers:
            layer.start()
        with running() if self._is_chain else nullcontext():
            yield

    def place(self) -> tuple[int, ...] | None:
        """Where the committed states lie, one layer behind the other, for a forward that reads them there.

        Slots of a layer; how far the next sequence is from one, in slots; the addresses of the convolutions' and the
        recurrences' states (0 if there are none), then where the new ones are to go. None where none are committed, or
        other rows are uncommitted.
        """
        if self._rows or self._placed or self.layers[0].state.conv is None:
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

    def commit(self) -> None:
        """Keep all uncommitted rows. RuntimeError: they are a tree's."""
        if self._placed > 1:
            raise RuntimeError("which nodes of a tree are kept has to be said")
        self.keep(range(self._rows or self._placed))

    @torch.inference_mode()
    def keep(self, path: Sequence[int]) -> None:
        """Keep the rows `path`: all of a block, the first ones of a chain, or nodes of a tree from its root on."""
        if self._keep_row is not None:
            if path:
                self._keep_row(path[-1])
                self._homes.reverse()
                self._set(self._homes[0].states)
        elif self._rows and path:
            if list(path) != list(range(len(path) if self._is_chain else self._rows)):
                raise RuntimeError("a block of tokens is kept as a whole, of a chain the first ones")
            self._is_home = False
            for layer in self.layers:
                layer.keep(len(path), self._rows)
        self.drop()

    def drop(self) -> None:
        """Forget what is uncommitted."""
        for layer in self.layers:
            layer.drop()
        self._rows, self._placed, self._keep_row = 0, 0, None

    def mark(self, length: int) -> None:
        """Remember the states after the `length` committed tokens, which nothing changes."""
        self._marked = (
            length,
            [layer.state.made(Tensor.clone) if self._is_home else layer.state for layer in self.layers],
        )

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
