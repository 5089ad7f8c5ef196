"""transformers' own layers as a step that can be captured: their attention and their cache read the cache's place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import Cache

from specextend_cli.engine.attention.function import ForwardContext, LayerQueries
from specextend_cli.engine.attention.softmax import PLAIN, SoftmaxOptions
from specextend_cli.engine.attention.windows import Block
from specextend_cli.engine.cache import BufferLayer
from specextend_cli.engine.cuda import fused_ops
from specextend_cli.engine.cuda.step import StepInputs, StepOutput
from specextend_cli.engine.forward import ForwardInput
from specextend_cli.engine.head import EagleHead
from specextend_cli.engine.lm import LanguageModel

_ALL = [Block(slice(None), slice(None), None)]


class _Placed:
    """The attention `Backend` of one captured forward, and what its cache's layers tell it."""

    def __init__(self, inputs: StepInputs, like: Tensor, windows: Sequence[int | None]) -> None:
        """`like` is a tensor of the cache's number format; `windows` are the layers'."""
        self.inputs, self.like, self.windows = inputs, like, windows
        self.seen = fused_ops.windows(inputs, windows)
        self.queries: dict[int, LayerQueries] = {}
        self.layer_of: dict[int, int] = {}
        """Layers by the address of their new keys, by which attention knows which layer it is asked for."""

    def __call__(
        self, q: Tensor, k: Tensor, v: Tensor, scale: float, tree_mask: Tensor | None, softmax: SoftmaxOptions = PLAIN
    ) -> Tensor:
        layer, inputs = self.layer_of[k.data_ptr()], self.inputs
        window = self.windows[layer]
        self.queries[layer] = LayerQueries(q, scale, window, softmax)
        return fused_ops.attend_placed(
            *(q, self.like, scale, inputs.place, inputs.lengths, layer, k.shape[1]),
            words=inputs.words,
            softmax=softmax,
            window=self.seen[window],
        )

    def context(self) -> ForwardContext:
        """Of a forward by this back end, which applies windows itself: the host does not know the keys."""
        return ForwardContext(self, blocks={size: _ALL for size in self.windows if size is not None})


class _Layer(BufferLayer):
    """One layer of a cache at a place."""

    def __init__(self, placed: _Placed, index: int) -> None:
        super().__init__()
        self.placed, self.index = placed, index

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """Store new rows [b, heads, n, d], which also stand for the layer's."""
        placed = self.placed
        placed.layer_of[key_states.data_ptr()] = self.index
        inputs = placed.inputs
        fused_ops.store(key_states, value_states, placed.like, inputs.place, inputs.starts, self.index)
        return key_states, value_states

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Not known to the host; no mask is made of it."""
        return query_length, 0

    def get_seq_length(self) -> int:
        """Not known to the host."""
        return 0


class StockModel:
    """A language model's `Step`."""

    def __init__(self, lm: LanguageModel) -> None:
        self._lm, self._layers = lm, lm.layers
        self._like = torch.empty(1, dtype=lm.dtype, device=lm.device)
        self._decoder: Any = lm.model.get_decoder()
        self._rotary = getattr(self._decoder, "rotary_emb", None)

    def is_current(self) -> bool:
        """Whether positions are encoded as in the captured forward: the benchmark exchanges the module."""
        return getattr(self._decoder, "rotary_emb", None) is self._rotary

    def __call__(self, inputs: StepInputs) -> StepOutput:
        """See `Step`."""
        placed = _Placed(inputs, self._like, self._lm.windows)
        cache = Cache(layers=[_Layer(placed, index) for index in range(self._layers)])
        shape = inputs.sequences, -1
        tokens, positions = inputs.tokens.view(shape), inputs.positions.view(shape)
        every = tuple(range(self._layers + 1))
        asked = ForwardInput(tokens, positions, cache, placed.context(), feature_layers=every)
        logits, states = self._lm.run_layers(asked)
        queries = tuple(placed.queries[index] for index in range(self._layers))
        return StepOutput(logits.flatten(0, 1), tuple(state.flatten(0, 1) for state in states), queries)


class StockHead:
    """An EAGLE head's `Step`."""

    def __init__(self, head: EagleHead) -> None:
        self._head = head
        self._like = torch.empty(1, dtype=head.fc.weight.dtype, device=head.fc.weight.device)

    def is_current(self) -> bool:
        """Nothing of a head is exchanged."""
        return True

    def __call__(self, inputs: StepInputs) -> StepOutput:
        """See `Step`."""
        layers = self._head.config.layers
        placed = _Placed(inputs, self._like, [None] * layers)
        cache = Cache(layers=[_Layer(placed, index) for index in range(layers)])
        asked = ForwardInput(inputs.tokens, inputs.positions, cache, placed.context(), states=inputs.states)
        out = self._head.run_model(asked)
        return StepOutput(out.logits, (out.states,))
