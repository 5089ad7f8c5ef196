"""A decoder of few launches: joined matrices, and one kernel for what lies between two of them.

Ten launches a layer, where transformers' layers take some sixty. It covers what `Decoder` does but for Gemma's norms,
activation and caps; a model of another make raises NotOursError and keeps transformers' layers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from specextend_cli.engine.attention.function import LayerQueries
from specextend_cli.engine.attention.triton_tree import Placed
from specextend_cli.engine.check import NotOursError
from specextend_cli.engine.cuda import ops
from specextend_cli.engine.cuda.body import Body, GraphInputs, GraphOutput, addresses_of
from specextend_cli.engine.decoder import Decoder, DecoderLayer, Norm
from specextend_cli.engine.head import EagleHead
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.engine.step import Output, Step

_Linear: TypeAlias = Callable[[Tensor], Tensor]
"""Rows [n, inputs] times a matrix [outputs, inputs], and its bias."""


class _Layer(NamedTuple):
    """A decoder layer as the kernels compute it."""

    qkv: _Linear
    gate_up: _Linear
    mlp_norm: Norm
    qk_norms: tuple[Norm, Norm] | None
    turns: Tensor | None

    @classmethod
    def of(cls, layer: DecoderLayer, turns: Tensor) -> _Layer:
        """NotOursError for what the kernels do not compute."""
        if layer.is_gelu or layer.cap or layer.attention_out or layer.mlp_out:
            raise NotOursError("its layers are not those of Llama: GELU, capped scores or further norms")
        q_norm, k_norm, mlp_norm = layer.q_norm, layer.k_norm, layer.mlp_norm
        if mlp_norm is None or (q_norm is None) != (k_norm is None):
            raise NotOursError("its layers lack a norm")
        _check_norms(layer.attention_norm, mlp_norm, q_norm, k_norm, layer.state_norm)
        return cls(
            _join(layer.q, layer.k, layer.v),
            _join(layer.gate, layer.up),
            mlp_norm,
            None if q_norm is None or k_norm is None else (q_norm, k_norm),
            turns if layer.rotates else None,
        )


def _check_norms(*norms: Norm | None) -> None:
    """NotOursError for those that the kernels do not compute."""
    if any(norm is not None and norm.adds_one for norm in norms):
        raise NotOursError("its norms multiply by their weight and 1")


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
    with torch.inference_mode(False), torch.no_grad():  # the modules stay what they are to those who train them
        joined = torch.cat([module.weight.data for module in modules])
        for module, rows in zip(modules, joined.split([m.out_features for m in modules]), strict=True):
            module.weight.data = rows
        return partial(linear, weight=joined, bias=torch.cat([bias.data for bias in biases]) if biases else None)


def turns_of(rotary: Any) -> Tensor:
    """What `ops.rope_and_store` turns by, as a model's own module does."""
    frequencies: Tensor = rotary.inv_freq
    scale = frequencies.new_full((1,), float(getattr(rotary, "attention_scaling", 1.0)))
    return torch.cat((frequencies.float(), scale.float()))


class FusedBody(Body):
    """A `Body`. NotOursError where the layers of a model or a head are of another make."""

    def __init__(self, model: LanguageModel | EagleHead) -> None:
        read = Decoder.of(model)
        if read.logits_cap or read.kinds:
            raise NotOursError("its logits are capped, or its layers have several RoPEs")
        self._read, self._rotary = read, read.rope()
        if not isinstance(getattr(self._rotary, "inv_freq", None), Tensor):
            raise NotOursError("its positions are not encoded by RoPE's frequencies")
        self._turns = turns_of(self._rotary)
        self._layers = [_Layer.of(layer, self._turns) for layer in read.layers]
        _check_norms(read.norm)
        self.states = read.layers[0].q.weight.new_empty(0, read.hidden) if isinstance(model, EagleHead) else None
        if self.states is None and None in (read.norm, *(layer.attention_norm for layer in read.layers)):
            raise NotOursError("a layer has no norm before its attention")

    def is_current(self) -> bool:
        """Take over the angles of the model's present module, which the benchmark exchanges; False: of other sizes."""
        present = self._read.rope()
        if present is not self._rotary:
            if present.inv_freq.shape != self._rotary.inv_freq.shape:
                return False
            self._rotary = present
            self._turns.copy_(turns_of(present))
        return True

    def __call__(self, inputs: GraphInputs) -> GraphOutput:
        """See `Body`."""
        first, read = self._embedded(inputs.tokens, inputs.states)
        states, normed, queries = zip(*self._run(first, read, inputs), strict=True)
        last, logits = normed[-1], self._logits(normed[-1])
        if inputs.states is not None:
            return GraphOutput(logits, (last if self._read.feeds_normed else states[-1],))
        asked = (self._queries(index, q[0]) for index, q in enumerate(queries))
        return GraphOutput(logits, (first, *states[:-1], last), dict(enumerate(asked)))

    def read(self, prompt: Step) -> Output:
        """A prompt's tokens [n], launch by launch; each sees all before it, by the step's back end."""
        inputs, cache = GraphInputs(len(prompt), 1, prompt.tokens.device), prompt.cache
        inputs.set((cache.start, cache.end, 0, *addresses_of(cache)))
        inputs.positions.copy_(prompt.positions)
        first, read = self._embedded(prompt.tokens, None)
        states, last = {0: first}, read
        for index, (x, normed, q) in enumerate(self._run(first, read, inputs, prompt)):
            last = normed
            if index + 1 in prompt.feature_layers:
                states[index + 1] = x
            if index in prompt.record:
                asked = q[0, :, -1:].clone() if prompt.record_last else q[0]  # a copy lets the others be freed
                prompt.queries[index] = self._queries(index, asked)
        states[len(self._layers)] = last
        features = [states[layer] for layer in prompt.feature_layers]
        logits = self._logits(last[-prompt.logits_to_keep :])
        return Output(logits, torch.cat(features, -1) if features else None, queries=prompt.queries)

    def _embedded(self, tokens: Tensor, states: Tensor | None) -> tuple[Tensor, Tensor]:
        """What the first layer adds to, and what it attends from; `states` are what a head joins its tokens with."""
        read, first = self._read, self._read.layers[0]
        x = read.embedding.weight[tokens]
        if states is None:
            factor = read.embedding_multiplier
            assert first.attention_norm is not None
            return ops.add_norm(x * factor if factor != 1.0 else x, None, first.attention_norm)
        x = x.to(states.dtype)
        if read.joined is not None:  # EAGLE-1: its states have passed the target's final norm
            joined = read.joined(torch.cat((x, states), -1))
            return joined, joined
        assert first.attention_norm is not None
        assert first.state_norm is not None
        both = states.new_empty(len(states), 2 * read.hidden)
        embedded, normed = both[:, : read.hidden], both[:, read.hidden :]
        ops.add_norm(x, None, first.attention_norm, out=embedded)
        ops.add_norm(states, None, first.state_norm, out=normed)
        return normed.contiguous() if first.residual_is_normed else states, both

    def _run(
        self, x: Tensor, read: Tensor, inputs: GraphInputs, prompt: Step | None = None
    ) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Of every layer: the states behind it, their norm for the next one or the last of all, and its queries.

        `x` are the states before the first layer, which attends from `read`. A `prompt` attends by its back end.
        """
        heads, kv_heads, factor = self._read.heads, self._read.kv_heads, self._read.residual_multiplier
        windows = {layer.window for layer in self._read.layers} if prompt is None else set()
        n, lengths, words = inputs.rows // inputs.sequences, inputs.lengths, inputs.words
        seen = {size: ops.first_keys(size, n, lengths, words) for size in windows if size is not None}
        norms = [*(layer.attention_norm for layer in self._read.layers[1:]), self._read.norm]
        for index, (own, layer, after) in enumerate(zip(self._read.layers, self._layers, norms, strict=True)):
            q = ops.rope_and_store(
                *(layer.qkv(read), heads, kv_heads, layer.turns, layer.qk_norms),
                *(inputs.addresses[0], inputs.starts, inputs.positions, index),
            )
            q = q.view(inputs.sequences, -1, *q.shape[1:]).transpose(1, 2)
            if prompt is not None:
                k, v = prompt.cache.of_layer(index)[..., : prompt.cache.end, :]
                out = prompt.attend(q, k, v, own.scale, own.window)
            else:
                at = Placed(inputs.addresses[0], inputs.lengths, index, kv_heads, seen.get(own.window or 0))
                out = ops.attend(q, q, q, own.scale, words=inputs.words, at=at)
            attended = own.o(out.transpose(1, 2).reshape(len(x), -1))
            x, normed = ops.add_norm(x, attended, layer.mlp_norm, factor=factor)
            added = own.down(ops.gated(layer.gate_up(normed)))
            if after is None:
                x = normed = x + added * factor if factor != 1.0 else x + added
            else:
                x, normed = ops.add_norm(x, added, after, factor=factor)
            read = normed
            yield x, normed, q

    def _queries(self, index: int, q: Tensor) -> LayerQueries:
        layer = self._read.layers[index]
        return LayerQueries(q, layer.scale, layer.window)

    def _logits(self, normed: Tensor) -> Tensor:
        logits: Tensor = self._read.head(normed)
        divisor = self._read.logits_divisor
        return logits / divisor if divisor != 1.0 else logits
