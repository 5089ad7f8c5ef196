"""A decoder of few launches: joined matrices, and one kernel for what lies between two of them.

Ten launches a layer, where transformers' layers take some sixty. It covers what `Decoder` does but for Gemma's norms,
activation and caps; a model of another make raises NotOursError and keeps transformers' layers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from specextend_cli.engine import decoder
from specextend_cli.engine.attention.function import LayerQueries
from specextend_cli.engine.cache import KVCache
from specextend_cli.engine.check import NotOursError
from specextend_cli.engine.cuda import ops
from specextend_cli.engine.cuda.body import GraphInputs, GraphOutput, addresses_of
from specextend_cli.engine.cuda.ops import Norm, Rope
from specextend_cli.engine.decoder import Decoder, DecoderLayer
from specextend_cli.engine.head import EagleHead
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.engine.step import Output, Step

_Linear: TypeAlias = Callable[[Tensor], Tensor]
"""Rows [n, inputs] times a matrix [outputs, inputs], and its bias."""


@dataclass(frozen=True)
class _Layer:
    """A decoder layer. Without `attention_norm`, attention reads the states as they are (EAGLE-1)."""

    qkv: _Linear
    out: _Linear
    gate_up: _Linear
    down: _Linear
    attention_norm: Norm | None
    mlp_norm: Norm
    qk_norms: tuple[Norm, Norm] | None
    rope: Rope
    scale: float
    window: int | None

    @classmethod
    def of(cls, layer: DecoderLayer, rope: Rope) -> _Layer:
        """NotOursError for what the kernels do not compute."""
        if layer.is_gelu or layer.cap or layer.attention_out or layer.mlp_out:
            raise NotOursError("its layers are not those of Llama: GELU, capped scores or further norms")
        q_norm, k_norm, mlp_norm = _norm(layer.q_norm), _norm(layer.k_norm), _norm(layer.mlp_norm)
        if mlp_norm is None or (q_norm is None) != (k_norm is None):
            raise NotOursError("its layers lack a norm")
        return cls(
            _join(layer.q, layer.k, layer.v),
            _join(layer.o),
            _join(layer.gate, layer.up),
            _join(layer.down),
            _norm(layer.attention_norm),
            mlp_norm,
            None if q_norm is None or k_norm is None else (q_norm, k_norm),
            rope if layer.rotates else rope._replace(rotated=0),
            layer.scale,
            layer.window,
        )


def _norm(norm: decoder.Norm | None) -> Norm | None:
    if norm is not None and norm.adds_one:
        raise NotOursError("its norms multiply by their weight and 1")
    return None if norm is None else Norm(norm.weight, norm.epsilon)


def _join(*modules: nn.Linear) -> _Linear:
    """One matrix with the rows of all, which the modules keep as views of it: no weight is held twice.

    Nothing else holds it, so that modules may be moved, cast and read again.
    """
    for module in modules:
        if type(module.weight.data) is not Tensor or not module.weight.is_floating_point():
            raise NotOursError("its weights are quantized")
    biases = [module.bias for module in modules if module.bias is not None]
    if len(biases) not in (0, len(modules)):
        raise NotOursError("only some of its projections have a bias")
    if len(modules) == 1:
        return partial(linear, weight=modules[0].weight.data, bias=modules[0].bias)
    with torch.inference_mode(False), torch.no_grad():  # the modules stay what they are to those who train them
        joined = torch.cat([module.weight.data for module in modules])
        for module, rows in zip(modules, joined.split([m.out_features for m in modules]), strict=True):
            module.weight.data = rows
        return partial(linear, weight=joined, bias=torch.cat([bias.data for bias in biases]) if biases else None)


class Rotary:
    """RoPE by a model's own module, at one address: the benchmark exchanges the module."""

    def __init__(self, present: Callable[[], Any]) -> None:
        """See `decoder.Decoder.rope`."""
        self._present = present
        self._module: Any = present()
        if not isinstance(getattr(self._module, "inv_freq", None), Tensor):
            raise NotOursError("its positions are not encoded by RoPE's frequencies")
        turns = self._turns()
        self.rope = Rope(turns, 2 * (len(turns) - 1))

    def is_current(self) -> bool:
        """Take over what the model's present module turns by; False where it turns other dimensions."""
        present = self._present()
        if present is not self._module:
            if present.inv_freq.shape != self._module.inv_freq.shape:
                return False
            self._module = present
            self.rope.turns.copy_(self._turns())
        return True

    def _turns(self) -> Tensor:
        frequencies: Tensor = self._module.inv_freq
        scale = frequencies.new_full((1,), float(getattr(self._module, "attention_scaling", 1.0)))
        return torch.cat((frequencies.float(), scale.float()))


_Attend: TypeAlias = Callable[[Tensor, int], Tensor]
"""Queries [b, H, n, d] of a layer, its number -> [b, H, n, d]. The layer's keys are in the cache by then."""


class Layers:
    """Layers over a cache that is found by its addresses."""

    def __init__(self, layers: Sequence[_Layer], heads: int, kv_heads: int, factor: float = 1.0) -> None:
        """`factor` scales what a layer adds to the states."""
        self.layers, self.heads, self.kv_heads, self.factor = tuple(layers), heads, kv_heads, factor

    def run(
        self, x: Tensor, read: Tensor, last: Norm | None, inputs: GraphInputs, attend: _Attend | None = None
    ) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Of every layer: the states behind it, their norm for the next one (or `last`), and its queries.

        `x` are the states before the first layer, which attends from `read`. `attend`: by the tree kernel, if None.
        """
        seen = ops.windows(inputs, [] if attend else [layer.window for layer in self.layers])

        def attend_at(q: Tensor, index: int) -> Tensor:
            scale, window = self.layers[index].scale, seen[self.layers[index].window]
            at = inputs.addresses, inputs.lengths, index, self.kv_heads
            return ops.attend_at(q, q, scale, *at, words=inputs.words, window=window)

        for index, layer in enumerate(self.layers):
            qkv = layer.qkv(read)
            q = ops.rope_and_store(
                *(qkv, self.heads, self.kv_heads, layer.rope, layer.qk_norms),
                *(inputs.addresses, inputs.starts, inputs.positions, index),
            )
            q = q.view(inputs.sequences, -1, *q.shape[1:]).transpose(1, 2)
            out = (attend or attend_at)(q, index)
            attended = layer.out(out.transpose(1, 2).reshape(len(x), -1))
            x, normed = ops.add_norm(x, attended, layer.mlp_norm, factor=self.factor)
            added = layer.down(ops.gated(layer.gate_up(normed)))
            after = self.layers[index + 1].attention_norm if index + 1 < len(self.layers) else last
            if after is None:
                x = normed = x + added * self.factor if self.factor != 1.0 else x + added
            else:
                x, normed = ops.add_norm(x, added, after, factor=self.factor)
            read = normed
            yield x, normed, q


class FusedModel:
    """A language model's `Body`. NotOursError where its layers are of another make."""

    def __init__(self, lm: LanguageModel) -> None:
        read = Decoder.of(lm)
        if read.logits_cap or read.kinds:
            raise NotOursError("its logits are capped, or its layers have several RoPEs")
        self._read, self._rotary = read, Rotary(read.rope)
        self.is_current = self._rotary.is_current
        layers = [_Layer.of(layer, self._rotary.rope) for layer in read.layers]
        first, norm = layers[0].attention_norm, _norm(read.norm)
        if first is None or norm is None or any(layer.attention_norm is None for layer in layers):
            raise NotOursError("a layer has no norm before its attention")
        self._first_norm, self._norm = first, norm
        self._layers = Layers(layers, read.heads, read.kv_heads, read.residual_multiplier)

    def __call__(self, inputs: GraphInputs) -> GraphOutput:
        """See `Body`."""
        first, read = self._embedded(inputs.tokens)
        states, normed, queries = zip(*self._layers.run(first, read, self._norm, inputs), strict=True)
        layers = self._layers.layers
        asked = (LayerQueries(q, layer.scale, layer.window) for q, layer in zip(queries, layers, strict=True))
        return GraphOutput(self._logits(normed[-1]), (first, *states[:-1], normed[-1]), dict(enumerate(asked)))

    def read(self, prompt: Step, cache: KVCache) -> Output:
        """A prompt's tokens [n], launch by launch; each sees all before it, by the step's back end."""
        inputs = GraphInputs(len(prompt), 1, prompt.tokens.device)
        layers = self._layers.layers
        inputs.set((cache.start, cache.end, 0, *addresses_of(cache)))
        inputs.positions.copy_(prompt.positions)
        first, read = self._embedded(prompt.tokens)
        states, last = {0: first}, read

        def attend(q: Tensor, index: int) -> Tensor:
            k, v = cache.of_layer(index)[..., : cache.end, :]
            return prompt.attend(q, k, v, layers[index].scale, layers[index].window)

        for index, (x, normed, q) in enumerate(self._layers.run(first, read, self._norm, inputs, attend)):
            last = normed
            if index + 1 in prompt.feature_layers:
                states[index + 1] = x
            if index in prompt.record:
                asked = q[0, :, -1:].clone() if prompt.record_last else q[0]  # a copy lets the others be freed
                prompt.queries[index] = LayerQueries(asked, layers[index].scale, layers[index].window)
        states[len(layers)] = last
        features = [states[layer] for layer in prompt.feature_layers]
        logits = self._logits(last[-prompt.logits_to_keep :])
        return Output(logits, torch.cat(features, -1) if features else None, queries=prompt.queries)

    def _embedded(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """The states before the first layer, and their norm."""
        x, factor = self._read.embedding.weight[tokens], self._read.embedding_multiplier
        return ops.add_norm(x * factor if factor != 1.0 else x, None, self._first_norm)

    def _logits(self, normed: Tensor) -> Tensor:
        logits: Tensor = self._read.head(normed)
        divisor = self._read.logits_divisor
        return logits / divisor if divisor != 1.0 else logits


class FusedHead:
    """An EAGLE head's `Body`."""

    def __init__(self, head: EagleHead) -> None:
        read = Decoder.of(head)
        self._parts, self._config, self._rotary = head, head.config, Rotary(read.rope)
        self.is_current = self._rotary.is_current
        layers = [_Layer.of(layer, self._rotary.rope) for layer in read.layers]
        self._layers = Layers(layers, read.heads, read.kv_heads)
        self._hidden_norm, self._norm = _norm(read.layers[0].state_norm), _norm(read.norm)

    def __call__(self, inputs: GraphInputs) -> GraphOutput:
        """See `Body`."""
        head, states = self._parts, inputs.states
        assert states is not None
        x, first = states, self._layers.layers[0].attention_norm
        embedded = head.embedding.weight[inputs.tokens].to(states.dtype)
        if self._hidden_norm is None:  # EAGLE-1: its states have passed the target's final norm
            x = read = head.fc(torch.cat((embedded, states), -1))
        else:
            read = states.new_empty(len(states), 2 * states.shape[1])
            assert first is not None
            ops.add_norm(embedded, None, first, out=read[:, : states.shape[1]])
            ops.add_norm(states, None, self._hidden_norm, out=read[:, states.shape[1] :])
            if self._config.norm_before_residual:
                x = read[:, states.shape[1] :].contiguous()
        *_, (after, normed, _) = self._layers.run(x, read, self._norm, inputs)
        return GraphOutput(head.lm_head(normed), (normed if self._config.feeds_normed else after,))
