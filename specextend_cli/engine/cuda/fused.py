"""A decoder of few launches: joined matrices, and one kernel for what lies between two of them.

Ten launches a layer, where transformers' layers take some sixty. It covers the block families that the native forward
of processors covers (attention and a gated MLP, each behind an RMS norm: Llama, SmolLM, Qwen2, Qwen3, Mistral), as well
as Granite and the layers of EAGLE heads. A model of another make raises CannotFuseError and keeps transformers' layers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, silu

from specextend_cli.engine.attention.function import LayerQueries
from specextend_cli.engine.cache import KVCache
from specextend_cli.engine.cuda import ops
from specextend_cli.engine.cuda.ops import Norm, Rope
from specextend_cli.engine.cuda.step import StepInputs, StepOutput, place_of
from specextend_cli.engine.forward import ForwardInput, ModelOutput
from specextend_cli.engine.head import EagleHead
from specextend_cli.engine.lm import LanguageModel

_JOINED = "_joined_weight"


class CannotFuseError(Exception):
    """The model has something that the fused forward does not know; the message says what."""


@dataclass(frozen=True)
class _Linear:
    """A matrix [outputs, inputs] and its bias."""

    weight: Tensor
    bias: Tensor | None

    def __call__(self, x: Tensor) -> Tensor:
        return linear(x, self.weight, self.bias)


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


class Weights:
    """Reads modules, and remembers which parameters were read. Its methods raise CannotFuseError."""

    def __init__(self) -> None:
        self._read: set[int] = set()

    def linear(self, *modules: Any) -> _Linear:
        """One matrix with the rows of all, which the modules keep as views of it: no weight is held twice."""
        for module in modules:
            if not isinstance(module, nn.Linear) or type(module.weight.data) is not Tensor:
                raise CannotFuseError(f"{type(module).__name__} is no linear layer with plain weights")
            if not module.weight.is_floating_point() or module.weight.shape[1] != modules[0].weight.shape[1]:
                raise CannotFuseError("its weights are quantized, or do not read the same input")
            self._read |= {id(parameter) for parameter in module.parameters()}
        biases = [module.bias for module in modules if module.bias is not None]
        if len(biases) not in (0, len(modules)):
            raise CannotFuseError("only some of its projections have a bias")
        if len(modules) == 1:
            return _Linear(modules[0].weight.data, modules[0].bias)
        with torch.inference_mode(False), torch.no_grad():  # the modules stay what they are to those who train them
            joined = vars(modules[0]).get(_JOINED)  # by an earlier check
            if joined is None or joined.data_ptr() != modules[0].weight.data_ptr():
                joined = torch.cat([module.weight.data for module in modules])
                for module, rows in zip(modules, joined.split([m.out_features for m in modules]), strict=True):
                    module.weight.data = rows
                vars(modules[0])[_JOINED] = joined
            return _Linear(joined, torch.cat([bias.data for bias in biases]) if biases else None)

    def norm(self, module: Any, width: int) -> Norm:
        """An RMS norm."""
        weight, epsilon = getattr(module, "weight", None), getattr(module, "variance_epsilon", None)
        if not isinstance(weight, Tensor) or weight.shape != (width,) or epsilon is None:
            raise CannotFuseError(f"{type(module).__name__} is no RMS norm of {width} numbers")
        self._read.add(id(weight))
        return Norm(weight.data, float(epsilon))

    def layer(self, module: Any, rope: Rope, scale: float, window: int | None, hidden: int, head_dim: int) -> _Layer:
        """Attention and a gated MLP with SiLU."""
        attention, mlp = getattr(module, "self_attn", None), getattr(module, "mlp", None)
        some = torch.linspace(-4, 4, 16)
        act: Any = getattr(mlp, "act_fn", None)
        if act is None or not torch.allclose(act(some), silu(some)):
            raise CannotFuseError(f"{type(mlp).__name__} is no MLP with SiLU")
        q, k, v, o = (getattr(attention, f"{name}_proj", None) for name in "qkvo")
        gate, up, down = (getattr(mlp, f"{name}_proj", None) for name in ("gate", "up", "down"))
        before = getattr(module, "input_layernorm", None)
        qk_norms = [getattr(attention, name, None) for name in ("q_norm", "k_norm")]
        if not getattr(attention, "use_rope", True):
            rope = rope._replace(rotated=0)
        return _Layer(
            self.linear(q, k, v),
            self.linear(o),
            self.linear(gate, up),
            self.linear(down),
            None if before is None else self.norm(before, hidden),
            self.norm(getattr(module, "post_attention_layernorm", None), hidden),
            None if qk_norms == [None, None] else (self.norm(qk_norms[0], head_dim), self.norm(qk_norms[1], head_dim)),
            rope,
            scale,
            window,
        )

    def read(self, module: nn.Module) -> None:
        """Its parameters are used as they are."""
        self._read |= {id(parameter) for parameter in module.parameters()}

    def check_complete(self, model: nn.Module) -> None:
        """CannotFuseError where the model has parameters that nobody reads."""
        for name, parameter in model.named_parameters():
            if id(parameter) not in self._read:
                raise CannotFuseError(f"it has {name}, which the fused forward does not know")


class Rotary:
    """RoPE by a model's own module, at one address: the benchmark exchanges the module."""

    def __init__(self, owner: Any, name: str) -> None:
        self._owner, self._name = owner, name
        self._module: Any = getattr(owner, name, None)
        if not isinstance(getattr(self._module, "inv_freq", None), Tensor):
            raise CannotFuseError("its positions are not encoded by RoPE's frequencies")
        turns = self._turns()
        self.rope = Rope(turns, 2 * (len(turns) - 1))

    def is_current(self) -> bool:
        """Take over what the model's present module turns by; False where it turns other dimensions."""
        present = getattr(self._owner, self._name)
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


class Decoder:
    """Layers over a cache at a place."""

    def __init__(self, layers: Sequence[_Layer], heads: int, kv_heads: int, factor: float = 1.0) -> None:
        """`factor` scales what a layer adds to the states."""
        self.layers, self.heads, self.kv_heads, self.factor = tuple(layers), heads, kv_heads, factor

    def run(
        self, x: Tensor, read: Tensor, last: Norm | None, inputs: StepInputs, attend: _Attend | None = None
    ) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Of every layer: the states behind it, their norm for the next one (or `last`), and its queries.

        `x` are the states before the first layer, which attends from `read`. `attend`: by the tree kernel, if None.
        """
        seen = ops.windows(inputs, [] if attend else [layer.window for layer in self.layers])

        def attend_placed(q: Tensor, index: int) -> Tensor:
            scale, window = self.layers[index].scale, seen[self.layers[index].window]
            at = inputs.place, inputs.lengths, index, self.kv_heads
            return ops.attend_placed(q, q, scale, *at, words=inputs.words, window=window)

        for index, layer in enumerate(self.layers):
            qkv = layer.qkv(read)
            q = ops.rope_and_store(
                *(qkv, self.heads, self.kv_heads, layer.rope, layer.qk_norms),
                *(inputs.place, inputs.starts, inputs.positions, index),
            )
            q = q.view(inputs.sequences, -1, *q.shape[1:]).transpose(1, 2)
            out = (attend or attend_placed)(q, index)
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
    """A language model's `Step`."""

    def __init__(self, lm: LanguageModel) -> None:
        decoder: Any = lm.model.get_decoder()
        config: Any = lm.config
        if lm.state_bytes:
            raise CannotFuseError("some of its layers are recurrent")
        if not all(hasattr(decoder, part) for part in ("layers", "norm", "rotary_emb")):
            raise CannotFuseError(f"{type(decoder).__name__} has other parts than layers, a norm and RoPE")
        if not all(softmax.is_plain for softmax in lm.softmaxes):
            raise CannotFuseError("some of its layers attend by another softmax")
        if getattr(config, "final_logit_softcapping", None) or getattr(config, "logit_scale", None) not in (None, 1):
            raise CannotFuseError("its logits are capped or scaled")
        self._head: Any = lm.model.get_output_embeddings()
        self._embedding: Any = lm.model.get_input_embeddings()
        self._rotary = Rotary(decoder, "rotary_emb")
        self.is_current = self._rotary.is_current
        if len(buffers := lm.new_cache(1).buffers) > 1:
            raise CannotFuseError("its layers have heads of several sizes")
        *_, kv_heads, _, head_dim = buffers[0].shape
        weights, width = Weights(), self._embedding.weight.shape[1]
        layers = [
            weights.layer(module, self._rotary.rope, scale, window, width, head_dim)
            for module, scale, window in zip(decoder.layers, lm.scales, lm.windows, strict=True)
        ]
        first, *_ = norms = [layer.attention_norm for layer in layers]
        if first is None or None in norms:
            raise CannotFuseError("a layer has no norm before its attention")
        self._first_norm = first
        self._norm = weights.norm(decoder.norm, width)
        for part in (self._head, self._embedding):
            weights.read(part)
        weights.check_complete(lm.model)
        heads = layers[0].qkv.weight.shape[0] // head_dim - 2 * kv_heads
        self._multipliers = lm.multipliers
        self._decoder = Decoder(layers, heads, kv_heads, lm.multipliers.residual)

    def __call__(self, inputs: StepInputs) -> StepOutput:
        """See `Step`."""
        first, read = self._embedded(inputs.tokens)
        states, normed, queries = zip(*self._decoder.run(first, read, self._norm, inputs), strict=True)
        layers = self._decoder.layers
        asked = (LayerQueries(q, layer.scale, layer.window) for q, layer in zip(queries, layers, strict=True))
        return StepOutput(self._logits(normed[-1]), (first, *states[:-1], normed[-1]), dict(enumerate(asked)))

    def read(self, prompt: ForwardInput, cache: KVCache) -> ModelOutput:
        """A prompt's tokens [1, n], launch by launch; each sees all before it, by the context's back end."""
        context, inputs = prompt.context, StepInputs(prompt.tokens.shape[1], 1, prompt.tokens.device)
        layers = self._decoder.layers
        inputs.set((cache.start, cache.end, 0, *place_of(cache)))
        inputs.positions.copy_(prompt.positions[0])
        first, read = self._embedded(prompt.tokens[0])
        states, last = {0: first}, read

        def attend(q: Tensor, index: int) -> Tensor:
            k, v = cache.of_layer(index)[..., : cache.end, :]
            return context.attend(q, k, v, layers[index].scale, layers[index].window)

        for index, (x, normed, q) in enumerate(self._decoder.run(first, read, self._norm, inputs, attend)):
            last = normed
            if index + 1 in prompt.feature_layers:
                states[index + 1] = x
            if index in context.record:
                asked = q[0, :, -1:].clone() if context.record_last else q[0]  # a copy lets the others be freed
                context.queries[index] = LayerQueries(asked, layers[index].scale, layers[index].window)
        states[len(layers)] = last
        features = [states[layer] for layer in prompt.feature_layers]
        logits = self._logits(last[-prompt.logits_to_keep :])
        return ModelOutput(logits[None], torch.cat(features, -1)[None] if features else None)

    def _embedded(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """The states before the first layer, and their norm."""
        x = self._embedding.weight[tokens]
        if self._multipliers.embedding != 1.0:
            x = x * self._multipliers.embedding
        return ops.add_norm(x, None, self._first_norm)

    def _logits(self, normed: Tensor) -> Tensor:
        logits = linear(normed, self._head.weight, self._head.bias)
        return logits / self._multipliers.logits if self._multipliers.logits != 1.0 else logits


class FusedHead:
    """An EAGLE head's `Step`."""

    def __init__(self, head: EagleHead) -> None:
        config, weights = head.config, Weights()
        self._parts, self._config = head, config
        self._rotary = Rotary(head, "rotary")
        self.is_current = self._rotary.is_current
        width, scale = config.hidden, config.head_dim**-0.5
        modules: Any = head.layers
        layers = [weights.layer(module, self._rotary.rope, scale, None, width, config.head_dim) for module in modules]
        self._decoder = Decoder(layers, config.heads, config.kv_heads)
        self._hidden_norm = weights.norm(modules[0].hidden_norm, width) if config.generation == 3 else None
        self._norm = weights.norm(head.norm, width) if config.generation == 3 else None
        norms = (part for name, part in head.named_children() if name in ("input_norm", "fc_norm"))
        for part in (head.embedding, head.fc, head.lm_head, *norms):
            weights.read(part)
        weights.check_complete(head)

    def __call__(self, inputs: StepInputs) -> StepOutput:
        """See `Step`."""
        head, states = self._parts, inputs.states
        assert states is not None
        x, first = states, self._decoder.layers[0].attention_norm
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
        *_, (after, normed, _) = self._decoder.run(x, read, self._norm, inputs)
        return StepOutput(head.lm_head(normed), (normed if self._config.feeds_normed else after,))
