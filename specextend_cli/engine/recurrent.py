"""States of recurrent layers: gated delta nets, short convolutions. One state stands for all tokens before.

Keys of rejected tokens are overwritten; a state has to be as it was. Layers here never change a state in place: a block
of tokens leads to a new one, which replaces the committed one with the block. Of a verified chain of tokens the layers'
inputs are recorded: a cut back repeats the recurrence over the accepted ones, without the matrix products around it.

CUDA graphs read committed states where they lie, and write new ones beside them (`StateBuffers`,
`RecurrentStates.addresses`); they alone compute trees that branch.
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
from transformers.cache_utils import LinearAttentionLayer


class State(NamedTuple):
    """What a layer needs to go on after a token; both None before the first one.

    `conv`: the newest inputs of its convolution, [1, channels, kernel size]; `recurrent`: [1, ...], or None where the
    layer is nothing but a convolution.
    """

    conv: Tensor | None
    recurrent: Tensor | None

    def made(self, make: Callable[[Tensor], Tensor]) -> State:
        """What `make` makes of each part."""
        return State(*(None if part is None else make(part) for part in self))


_NOTHING = State(None, None)


RUNNING: ContextVar[list[Any] | None] = ContextVar("running recurrent layers", default=None)
"""While a chain, or a captured forward, is computed: the cache's layers so far. Functions of the last one read it."""


@contextmanager
def running() -> Iterator[None]:
    """While a forward is computed whose recurrent layers are followed."""
    token = RUNNING.set([])
    try:
        yield
    finally:
        RUNNING.reset(token)


class RecurrentLayer(LinearAttentionLayer):
    """One layer's states in a cache, by transformers' interface of such caches.

    Those of a batch are changed where they lie: none of its tokens is padding, and none is taken back.
    """

    def __init__(self, *, is_batch: bool) -> None:
        super().__init__()
        self.is_batch = is_batch
        self.record_past = not is_batch  # single tokens, too, leave the states alone
        self.hold(_NOTHING)
        self._new = _NOTHING  # after the uncommitted ones
        self._columns: Tensor | None = None  # of a chain: the convolution's inputs before and in it [1, channels, m]
        self.recorded: Callable[[int], Tensor] | None = None
        """Of a chain: the recurrence's state after its first rows."""

    def hold(self, state: State) -> None:
        """Have the states after the committed tokens, from which forwards go on."""
        self.state = state
        self.conv_states[0], self.recurrent_states[0] = state
        self.has_previous_state[0] = state.conv is not None

    def update_conv_state(
        self, conv_states: Tensor, state_idx: int = 0, conv_kernel_size: int | None = None, **kwargs: Any
    ) -> Tensor:
        """Take the new inputs [b, channels, n] of a convolution; these behind those before, [b, channels, m]."""
        size, before = conv_kernel_size or conv_states.shape[-1], self.state.conv
        whole = conv_states if before is None else torch.cat((before, conv_states), -1)
        if self.is_batch and before is not None:
            before.copy_(whole[..., -before.shape[-1] :])
            return whole
        kept = whole[..., -size:]
        self._new = State(pad(kept, (size - kept.shape[-1], 0)).clone(), None)
        if (now := RUNNING.get()) is not None:
            now.append(self)
            self._columns = pad(conv_states, (size, 0)) if before is None else whole
        return whole

    def update_recurrent_state(self, recurrent_states: Tensor, state_idx: int = 0, **kwargs: Any) -> Tensor:
        """The states [b, ...] that the layer computed."""
        if self.is_batch and self.state.recurrent is not None:
            return self.state.recurrent.copy_(recurrent_states)
        self._new = self._new._replace(recurrent=recurrent_states)
        return recurrent_states

    def commit(self, rows: int, of: int) -> None:
        """Commit the first `rows` of `of` uncommitted ones; fewer than all only of a chain."""
        state = self._new
        if rows < of:
            assert self._columns is not None
            size = self._columns.shape[-1] - of
            conv = self._columns[..., rows : rows + size].clone()
            state = State(conv, self.recorded(rows) if self.recorded else None)
        self.hold(state)

    def drop(self) -> None:
        """Forget what is uncommitted."""
        self._new, self._columns, self.recorded = _NOTHING, None, None


class StateBuffers:
    """Memory for the states of all layers, which are alike: `states` by layer, each [slots, ...], may be changed there.

    `addresses` are those of the first layer's states of its convolution and of its recurrence (0 without): the other
    layers' follow.
    """

    def __init__(self, like: Sequence[State], slots: int) -> None:
        whole = like[0].made(lambda part: part.new_zeros(len(like), slots, *part.shape[1:]))
        self.states = [whole.made(itemgetter(number)) for number in range(len(like))]
        self.addresses = tuple(0 if part is None else part.data_ptr() for part in whole)

    def put(self, slot: int, states: Sequence[State]) -> None:
        """Copy states [1, ...] that lie elsewhere."""
        for held, state in zip(self.states, states, strict=True):
            for into, part in zip(held, state, strict=True):
                if into is not None and part is not None:
                    into[slot] = part[0]


class RecurrentStates:
    """The states of a cache's recurrent layers after its committed tokens; no layers: nothing to do."""

    def __init__(self, layers: Sequence[RecurrentLayer], slots: int | None) -> None:
        """`slots` of a batch; None: of one sequence."""
        self.layers, self._slots = layers, slots
        self._rows = 0  # uncommitted
        self._is_chain = False  # and may be cut
        self._marked: tuple[int, list[State]] = 0, []
        # Two, which take turns: a forward writes into the one that it does not read.
        self._buffers: list[StateBuffers] = []
        self._in_buffers = False  # whether the committed states lie in the first, which is a batch's only one
        self._commit_row: Callable[[int], None] | None = None  # of a forward that read the states there

    def __bool__(self) -> bool:
        return bool(self.layers)

    @property
    def nbytes(self) -> int:
        """Memory of the committed states."""
        return sum(part.nbytes for layer in self.layers for part in layer.state if part is not None)

    @contextmanager
    def forward(self, rows: int, *, is_chain: bool) -> Iterator[None]:
        """While the layers compute `rows` tokens in order; of a chain, fewer of them may be committed.

        RuntimeError: others are uncommitted.
        """
        if self._rows:
            raise RuntimeError("recurrent layers go on from committed tokens only")
        self._rows, self._is_chain = rows, is_chain
        with running() if is_chain else nullcontext():
            yield

    def addresses(self) -> tuple[int, ...] | None:
        """Where the committed states lie, one layer behind the other, for a forward that reads them there.

        Slots of a layer; how far the next sequence is from one, in slots; the addresses of the convolutions' and the
        recurrences' states (0 if there are none), then where the new ones are to go: of a batch, in their place. Empty
        without layers. None where no states are committed, or other rows are uncommitted.
        """
        states = [layer.state for layer in self.layers]
        if not states:
            return ()
        if self._rows or states[0].conv is None:
            return None
        self._buffers = self._buffers or [StateBuffers(states, 1), StateBuffers(states, 1)]
        old, new = self._buffers[0], self._buffers[-1]
        if not self._in_buffers:
            old.put(0, states)
            self._set(old.states)
            self._in_buffers = True
        return self._slots or 1, int(self._slots is not None), *old.addresses, *new.addresses

    def wait(self, rows: int, commit: Callable[[int], None]) -> None:
        """So many rows were computed from the states there; `commit` puts those after a row into the new ones."""
        self._rows, self._commit_row = rows, commit

    def _set(self, states: Sequence[State]) -> None:
        for layer, state in zip(self.layers, states, strict=True):
            layer.hold(state)

    @torch.inference_mode()
    def commit(self, path: Sequence[int] | None) -> None:
        """Commit the rows `path`: all of a block, the first ones of a chain, or nodes of a tree from its root on.

        None: all of them. RuntimeError for others.
        """
        path = range(self._rows) if path is None else path
        if self._commit_row and path:
            self._commit_row(path[-1])
            self._buffers.reverse()
            self._set(self._buffers[0].states)
        elif self._rows and path:
            if list(path) != list(range(len(path) if self._is_chain else self._rows)):
                raise RuntimeError("a block of tokens is committed as a whole, of a chain the first ones")
            self._in_buffers = False
            for layer in self.layers:
                layer.commit(len(path), self._rows)
        self.drop()

    def drop(self) -> None:
        """Forget what is uncommitted."""
        for layer in self.layers:
            layer.drop()
        self._rows, self._commit_row = 0, None

    def mark(self, length: int) -> None:
        """Remember the states after the `length` committed tokens, which nothing changes."""
        states = [layer.state for layer in self.layers]
        self._marked = length, [state.made(Tensor.clone) for state in states] if self._in_buffers else states

    def is_marked(self, length: int) -> bool:
        """Whether the states after so many tokens are remembered."""
        return not self.layers or length in (0, self._marked[0])

    def rollback(self, length: int) -> None:
        """Go back to the first `length` tokens. RuntimeError where their states are not remembered."""
        if not self.is_marked(length):
            raise RuntimeError(f"the states after {length} tokens are not known any more")
        self._in_buffers = False
        if length == 0:
            self._marked = 0, [_NOTHING] * len(self.layers)
        self._set(self._marked[1])

    def add(self, slot: int, read: RecurrentStates) -> None:
        """Copy those after a prompt into a slot of a batch."""
        states = [layer.state for layer in read.layers]
        if states:
            self._buffers, self._in_buffers = self._buffers or [StateBuffers(states, self._slots or 1)], True
            self._buffers[0].put(slot, states)

    def move(self, slot: int, to: int) -> None:
        """Copy those in a slot of a batch into another."""
        for buffers in self._buffers:
            buffers.put(to, [state.made(itemgetter(slice(slot, slot + 1))) for state in buffers.states])

    def use(self, slots: int) -> None:
        """Of a batch, let forwards see the first `slots`."""
        for buffers in self._buffers:
            self._set([state.made(itemgetter(slice(slots))) for state in buffers.states])
