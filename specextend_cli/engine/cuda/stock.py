"""transformers' own layers as a forward that can be captured: attention and cache find rows by addresses.

Of recurrent layers transformers computes everything around the recurrence itself, and the convolution. The layers are
told that there is no state, so that they call the same functions for one token as for many; these lead here (see
`scans.py`).
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import Cache, DynamicLayer, LinearAttentionLayer

from specextend_cli.engine.attention.softmax import PLAIN, SoftmaxOptions
from specextend_cli.engine.attention.triton_tree import Placed, Window
from specextend_cli.engine.cuda import ops
from specextend_cli.engine.cuda.body import Body, GraphInputs, GraphOutput, Recorded, Recurrence
from specextend_cli.engine.head import EagleHead
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.engine.recurrent import RUNNING, running
from specextend_cli.engine.step import Step


class _CapturedStep(Step):
    """A forward over a cache that is found by its addresses: its attention, and what its cache's layers tell it."""

    def __init__(self, inputs: GraphInputs, like: Tensor, **asked: Any) -> None:
        """`like` is a tensor of the cache's number format."""
        super().__init__(inputs.tokens, inputs.positions, None, sequences=inputs.sequences, **asked)
        self.inputs, self.like = inputs, like
        self.rows_of: dict[int, tuple[int, int]] = {}
        """By the address of new keys, the buffer of the cache and the number there of the layer that they belong to."""
        self._windows: dict[int | None, Window | None] = {None: None}

    def attend(
        self, q: Tensor, k: Tensor, v: Tensor, scale: float, window: int | None, softmax: SoftmaxOptions = PLAIN
    ) -> Tensor:
        """See `ForwardContext`. The host does not know the keys."""
        inputs, (buffer, index) = self.inputs, self.rows_of[k.data_ptr()]  # perhaps those of another layer
        if window is not None and window not in self._windows:
            n = inputs.rows // inputs.sequences
            self._windows[window] = ops.first_keys(window, n, inputs.lengths, inputs.words)
        at = Placed(inputs.addresses[buffer], inputs.lengths, index, k.shape[1], self._windows[window])
        return ops.attend(q, self.like, self.like, scale, words=inputs.words, at=at, softmax=softmax)


class _Layer(DynamicLayer):
    """One layer of a cache that is found by its addresses; its rows are those of the `index`-th layer of a `buffer`.

    How many there are is not known to the host: transformers takes it for empty, and makes no mask of it.
    """

    def __init__(self, step: _CapturedStep, buffer: int, index: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.step, self.buffer, self.index = step, buffer, index

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """Store new rows [b, heads, n, d], which also stand for the layer's."""
        step, inputs = self.step, self.step.inputs
        step.rows_of[key_states.data_ptr()] = self.buffer, self.index
        ops.store(key_states, value_states, step.like, inputs.addresses[self.buffer], inputs.starts, self.index)
        return key_states, value_states


class _State(LinearAttentionLayer):
    """One layer of a cache that is found by its addresses; `index` counts the layers with states."""

    def __init__(self, inputs: GraphInputs, index: int) -> None:
        super().__init__()
        self.record_past = True  # single tokens, too, ask for what their convolution reads
        self.inputs, self.state_index = inputs, index
        self.recorded: Recorded | None = None

    def update_conv_state(
        self, conv_states: Tensor, state_idx: int = 0, conv_kernel_size: int | None = None, **kwargs: Any
    ) -> Tensor:
        """What the convolution sees at each row, [rows, channels, size], for new inputs [b, channels, n]."""
        now = RUNNING.get()
        assert now is not None
        assert conv_kernel_size is not None
        now.append(self)
        self.recorded = Recorded(conv_states, conv_kernel_size, None)
        seen = ops.convolution_inputs(*self.recorded[:2], self.state_index, self.inputs.more, self.inputs.words)
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
        out = ops.recur(given, q.dtype, self.state_index, self.inputs.more, self.inputs.words)
        assert out is not None
        outputs = out.unflatten(0, (self.inputs.sequences, -1))
        return outputs, outputs


class StockBody(Body):
    """A `Body` of a language model or a head."""

    def __init__(self, model: LanguageModel | EagleHead) -> None:
        cache = model.new_cache(0)
        self._model, self._buffer_of = model, cache.buffer_of
        self._like = torch.empty(1, dtype=cache.dtype, device=cache.device)
        self.states = self._like.new_empty(0, model.config.hidden) if isinstance(model, EagleHead) else None
        # Nothing of a head is exchanged.
        self._decoder: Any = model.model.get_decoder() if isinstance(model, LanguageModel) else None
        self._rotary = getattr(self._decoder, "rotary_emb", None)

    def is_current(self) -> bool:
        """Whether positions are encoded as in the captured forward: the benchmark exchanges the module."""
        return getattr(self._decoder, "rotary_emb", None) is self._rotary

    def __call__(self, inputs: GraphInputs) -> GraphOutput:
        """See `Body`."""
        model = self._model
        layers = model.config.layers if isinstance(model, EagleHead) else model.layers
        asked = {"record": range(layers), "feature_layers": range(layers + 1)}  # a head has no features
        step = _CapturedStep(inputs, self._like, states=inputs.states, **asked)
        indices = itertools.count()
        step.cache = Cache(
            layers=[
                _Layer(step, *self._buffer_of[number]) if number in self._buffer_of else _State(inputs, next(indices))
                for number in range(layers)
            ]
        )
        states = [layer for layer in step.cache.layers if isinstance(layer, _State)]
        if isinstance(model, EagleHead):
            out = model.run_modules(step)
            assert out.state is not None
            return GraphOutput(out.logits, (out.state,))
        with running():
            logits, hidden = model.run_layers(step)
        recorded = [layer.recorded for layer in states if layer.recorded and inputs.words is not None]
        rows = tuple(state.flatten(0, 1) for state in hidden)
        return GraphOutput(logits.flatten(0, 1), rows, step.queries, tuple(recorded))
