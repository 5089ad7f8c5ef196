"""States of recurrent layers of several sequences side by side, which all go on by one token in a forward.

No token of a batch is padding, and none is taken back, so transformers' functions change the states where they lie.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import LinearAttentionCacheLayerMixin

from specextend_cli.engine.recurrent import RecurrentLayer


class BatchedRecurrentLayer(LinearAttentionCacheLayerMixin):
    """One layer's states, [slots, ...]; forwards see those of the first `used`."""

    def __init__(self, capacity: int, states: int = 1) -> None:
        super().__init__(number_of_states=states)
        self._capacity = capacity
        self._conv: dict[int, Tensor] = {}
        self._recurrent: dict[int, Tensor] = {}

    def add(self, slot: int, read: RecurrentLayer) -> None:
        """Copy the states after a prompt."""
        for held, given in ((self._conv, read.state.conv), (self._recurrent, read.state.recurrent)):
            for i, state in given.items():
                if i not in held:
                    held[i] = state.new_zeros(self._capacity, *state.shape[1:])
                held[i][slot] = state[0]

    def move(self, slot: int, to: int) -> None:
        """Copy a slot's states into another."""
        for held in (self._conv, self._recurrent):
            for state in held.values():
                state[to] = state[slot]

    def use(self, slots: int) -> None:
        """Show the first `slots`."""
        for i in range(self.number_of_states):
            conv, recurrent = self._conv.get(i), self._recurrent.get(i)
            self.conv_states[i] = None if conv is None else conv[:slots]
            self.recurrent_states[i] = None if recurrent is None else recurrent[:slots]
            self.has_previous_state[i] = True

    def lazy_initialization(self, *args: Any, **kwargs: Any) -> None:
        """Nothing to do."""

    def update_conv_state(self, conv_states: Tensor, state_idx: int = 0, **kwargs: Any) -> Tensor:
        """Take one new input [used, channels, 1] of each; the inputs that the convolution sees."""
        held = self.conv_states[state_idx]
        assert held is not None
        whole = torch.cat((held, conv_states), -1)
        held.copy_(whole[..., -held.shape[-1] :])
        return whole

    def update_recurrent_state(self, recurrent_states: Tensor, state_idx: int = 0, **kwargs: Any) -> Tensor:
        """Take the new states [used, ...]."""
        held = self.recurrent_states[state_idx]
        assert held is not None
        held.copy_(recurrent_states)
        return held

    def get_max_length(self) -> int:
        """No maximum."""
        return -1
