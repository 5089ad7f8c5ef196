"""Recurrent layers in a captured forward: their states are read, and left, where device memory says that they lie.

transformers' layers compute everything around the recurrence itself, and the convolution. The layers are told that
there is no state, so that they call the same functions for one token as for many; these lead here (`scans.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import LinearAttentionCacheLayerMixin

from specextend_cli.engine.cuda import recurrent_ops
from specextend_cli.engine.cuda.step import Recorded, Recurrence, StepInputs
from specextend_cli.engine.recurrent import RUNNING


class PlacedState(LinearAttentionCacheLayerMixin):
    """One layer of a cache at a place; `index` counts the layers with states."""

    def __init__(self, inputs: StepInputs, index: int) -> None:
        super().__init__()
        self.record_past = True  # single tokens, too, ask for what their convolution reads
        self.inputs, self.state_index = inputs, index
        self.recorded: Recorded | None = None

    def lazy_initialization(self, *args: Any, **kwargs: Any) -> None:
        """Nothing to do."""

    def update_conv_state(self, conv_states: Tensor, state_idx: int = 0, **kwargs: Any) -> Tensor:
        """What the convolution sees at each row, [rows, channels, size], for new inputs [b, channels, n]."""
        now = RUNNING.get()
        assert now is not None
        now.layer = self
        self.recorded = Recorded(conv_states, int(kwargs["conv_kernel_size"]), None)
        seen = recurrent_ops.windows(*self.recorded[:2], self.state_index, self.inputs.more, self.inputs.words)
        assert seen is not None
        return seen

    def update_recurrent_state(self, recurrent_states: Tensor, state_idx: int = 0, **kwargs: Any) -> Tensor:
        """Nothing to do: it is stored."""
        return recurrent_states

    def convolved(self, outputs: Tensor) -> Tensor:
        """Outputs [rows, channels] as the layer wants them: [b, channels, n]."""
        b, channels = self.inputs.sequences, outputs.shape[1]
        return outputs.contiguous().view(b, -1, channels).transpose(1, 2)

    def scan(self, arguments: Mapping[str, Any]) -> tuple[Tensor, Tensor]:
        """The recurrence over what a layer hands it, [b, n, ...]: its outputs, and a state that nobody reads."""
        assert self.recorded is not None
        q, k, v, decay, beta = (arguments[name].flatten(0, 1) for name in ("query", "key", "value", "g", "beta"))
        normed = bool(arguments.get("use_qk_l2norm_in_kernel"))
        given = Recurrence(q, k, v, decay.float().contiguous(), beta.contiguous(), normed, k.shape[-1] ** -0.5)
        self.recorded = self.recorded._replace(recurrence=given)
        out = recurrent_ops.recur(given, q.dtype, self.state_index, self.inputs.more, self.inputs.words)
        assert out is not None
        outputs = out.unflatten(0, (self.inputs.sequences, -1))
        return outputs, outputs


def keep(recorded: Sequence[Recorded], inputs: StepInputs, last: Tensor) -> None:
    """Store the states after the row `last` [1] of a tree, of all layers."""
    for index, layer in enumerate(recorded):
        at = index, inputs.more, inputs.words, last
        recurrent_ops.windows(layer.new, layer.size, *at)
        if layer.recurrence is not None:
            recurrent_ops.recur(layer.recurrence, torch.float32, *at)
