"""transformers' own layers as a forward that can be captured: attention and cache find rows by addresses.

Of recurrent layers transformers computes everything around the recurrence itself, and the convolution. The layers are
told that there is no state, so that they call the same functions for one token as for many; these lead here (see
`scans.py`).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import Cache, LinearAttentionCacheLayerMixin

from specextend_cli.engine.attention.function import LayerQueries
from specextend_cli.engine.attention.softmax import PLAIN, SoftmaxOptions
from specextend_cli.engine.attention.windows import Block
from specextend_cli.engine.cache import BufferLayer
from specextend_cli.engine.cuda import ops
from specextend_cli.engine.cuda.body import Body, GraphInputs, GraphOutput, Recorded, Recurrence
from specextend_cli.engine.head import EagleHead
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.engine.recurrent import RUNNING, running
from specextend_cli.engine.step import Step

_ALL = [Block(slice(None), slice(None), None)]


class _ByAddress:
    """The attention `Backend` of one captured forward, and what its cache's layers tell it."""

    def __init__(
        self, inputs: GraphInputs, like: Tensor, windows: Sequence[int | None], attending: Iterable[int]
    ) -> None:
        """`like` is a tensor of the cache's number format; `windows` are the layers'; `attending` ones ask in turn."""
        self.inputs, self.like, self.windows = inputs, like, windows
        self.seen = ops.windows(inputs, windows)
        self.queries: dict[int, LayerQueries] = {}
        self.rows_of: dict[int, tuple[int, int]] = {}
        """By the address of new keys, the buffer of the cache and the number there of the layer that they belong to."""
        self._asking = iter(attending)

    def __call__(
        self, q: Tensor, k: Tensor, v: Tensor, scale: float, tree_mask: Tensor | None, softmax: SoftmaxOptions = PLAIN
    ) -> Tensor:
        # A layer may attend to the keys of another one.
        number, (buffer, index), inputs = next(self._asking), self.rows_of[k.data_ptr()], self.inputs
        window = self.windows[number]
        self.queries[number] = LayerQueries(q, scale, window, softmax)
        return ops.attend_at(
            *(q, self.like, scale, inputs.addresses_in(buffer), inputs.lengths, index, k.shape[1]),
            words=inputs.words,
            softmax=softmax,
            window=self.seen[window],
        )

    def step(self, cache: Cache, **asked: Any) -> Step:
        """A forward by this back end, which applies windows itself: the host does not know the keys."""
        inputs = self.inputs
        step = Step(inputs.tokens, inputs.positions, cache, backend=self, sequences=inputs.sequences, **asked)
        queries = inputs.rows // inputs.sequences
        step.blocks = {(size, queries): _ALL for size in self.windows if size is not None}
        return step


class _Layer(BufferLayer):
    """One layer of a cache that is found by its addresses; its rows are those of the `index`-th layer of a `buffer`."""

    def __init__(self, by_address: _ByAddress, buffer: int, index: int) -> None:
        super().__init__()
        self.by_address, self.buffer, self.index = by_address, buffer, index

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """Store new rows [b, heads, n, d], which also stand for the layer's."""
        by_address = self.by_address
        by_address.rows_of[key_states.data_ptr()] = self.buffer, self.index
        inputs, at = by_address.inputs, by_address.inputs.addresses_in(self.buffer)
        ops.store(key_states, value_states, by_address.like, at, inputs.starts, self.index)
        return key_states, value_states

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Not known to the host; no mask is made of it."""
        return query_length, 0

    def get_seq_length(self) -> int:
        """Not known to the host."""
        return 0


class _State(LinearAttentionCacheLayerMixin):
    """One layer of a cache that is found by its addresses; `index` counts the layers with states."""

    def __init__(self, inputs: GraphInputs, index: int) -> None:
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
        now.append(self)
        self.recorded = Recorded(conv_states, int(kwargs["conv_kernel_size"]), None)
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


class StockModel:
    """A language model's `Body`."""

    def __init__(self, lm: LanguageModel) -> None:
        self._lm, self._buffer_of = lm, lm.new_cache(0).buffer_of
        self._like = torch.empty(1, dtype=lm.dtype, device=lm.device)
        self._decoder: Any = lm.model.get_decoder()
        self._rotary = getattr(self._decoder, "rotary_emb", None)

    def is_current(self) -> bool:
        """Whether positions are encoded as in the captured forward: the benchmark exchanges the module."""
        return getattr(self._decoder, "rotary_emb", None) is self._rotary

    def __call__(self, inputs: GraphInputs) -> GraphOutput:
        """See `Body`."""
        by_address = _ByAddress(inputs, self._like, self._lm.windows, self._buffer_of)
        indices = itertools.count()
        layers: list[Any] = [
            _Layer(by_address, *self._buffer_of[number]) if number in self._buffer_of else _State(inputs, next(indices))
            for number in range(self._lm.layers)
        ]
        states = [layer for layer in layers if isinstance(layer, _State)]
        cache = Cache(layers=layers)
        with running() if states else nullcontext():
            logits, hidden = self._lm.run_layers(by_address.step(cache, feature_layers=range(self._lm.layers + 1)))
        recorded = [layer.recorded for layer in states if layer.recorded and inputs.words is not None]
        rows = tuple(state.flatten(0, 1) for state in hidden)
        return GraphOutput(logits.flatten(0, 1), rows, by_address.queries, tuple(recorded))


class StockHead(Body):
    """An EAGLE head's `Body`; nothing of a head is exchanged."""

    def __init__(self, head: EagleHead) -> None:
        self._head = head
        self._like = torch.empty(1, dtype=head.fc.weight.dtype, device=head.fc.weight.device)

    def __call__(self, inputs: GraphInputs) -> GraphOutput:
        """See `Body`."""
        layers = self._head.config.layers
        by_address = _ByAddress(inputs, self._like, [None] * layers, range(layers))
        cache = Cache(layers=[_Layer(by_address, 0, index) for index in range(layers)])
        out = self._head.run_modules(by_address.step(cache, states=inputs.states))
        assert out.state is not None
        return GraphOutput(out.logits, (out.state,))
