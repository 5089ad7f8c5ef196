"""A decoder as our own forwards compute it, read once from the modules of a language model or of an EAGLE head.

Its layers are attention and a gated MLP, each behind an RMS norm, or between two (Llama, SmolLM, Qwen2, Qwen3, Mistral,
Granite, Gemma 1 to 3). The native library (`native_runner.py`) and the fused layers of CUDA graphs (`cuda/fused.py`)
are made of it; what is anything else raises `NotOursError` and runs by its own modules.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, silu

from specextend_cli.engine.check import NotOursError
from specextend_cli.engine.head import EagleHead
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.engine.mtp import MtpHead


@dataclass(frozen=True)
class Norm:
    """An RMS norm: numbers over the root of their mean square, times `weight` [width], or (Gemma) 1 + `weight`."""

    weight: Tensor
    epsilon: float
    adds_one: bool = False


@dataclass(frozen=True)
class DecoderLayer:
    """A decoder layer; norms that it does not have are None.

    `attention_out` and `mlp_out` are norms of what is added to the states. `state_norm`: the first layer of an EAGLE-3
    head attends from the normed embedding beside the normed state, which is also what it adds to if
    `residual_is_normed`. A query sees the newest `window` positions; scores are capped at `cap`; `table` is the
    number of its kind, where RoPE has several.
    """

    q: nn.Linear
    k: nn.Linear
    v: nn.Linear
    o: nn.Linear
    gate: nn.Linear
    up: nn.Linear
    down: nn.Linear
    attention_norm: Norm | None
    mlp_norm: Norm | None
    q_norm: Norm | None
    k_norm: Norm | None
    state_norm: Norm | None
    attention_out: Norm | None
    mlp_out: Norm | None
    is_gelu: bool
    rotates: bool
    scale: float
    window: int | None = None
    cap: float | None = None
    table: int = 0
    residual_is_normed: bool = False


@dataclass(frozen=True)
class Decoder:
    """Layers between an embedding and an output layer.

    `rope` gives the present module that encodes positions: the benchmark exchanges it for prompts past the trained
    window; `kinds` of layers have a table each (Gemma 3). Embeddings, what a layer adds, and logits are multiplied and
    divided as Granite and Gemma do. A head makes a state of embedding and state (`joined`, EAGLE-1), or of the target's
    (`fused`, EAGLE-3; None where norms come before), and its next step reads the normed one if it `feeds_normed`.
    """

    layers: tuple[DecoderLayer, ...]
    embedding: Any
    norm: Norm | None
    head: nn.Linear
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    dtype: torch.dtype
    rope: Callable[[], Any]
    kinds: tuple[str, ...] = ()
    embedding_multiplier: float = 1.0
    residual_multiplier: float = 1.0
    logits_divisor: float = 1.0
    logits_cap: float | None = None
    joined: nn.Linear | None = None
    fused: nn.Linear | None = None
    feeds_normed: bool = False

    @classmethod
    def of(cls, model: LanguageModel | EagleHead) -> Decoder:
        """What `model` computes. NotOursError: it is anything else."""
        try:
            return _of_head(model) if isinstance(model, EagleHead) else _of_model(model)
        except (AttributeError, IndexError, RuntimeError, TypeError, ValueError) as error:  # of models of another make
            raise NotOursError(str(error)[:200]) from error


def _of_model(lm: LanguageModel) -> Decoder:
    decoder: Any = lm.model.get_decoder()
    config: Any = lm.config
    if lm.state_bytes:
        raise NotOursError("some of its layers are recurrent")
    if any(layer.softmax.sinks is not None for layer in lm.attending):
        raise NotOursError("some of its layers attend with sinks")
    if getattr(config, "logit_scale", None) not in (None, 1):
        raise NotOursError(f"{type(lm.model).__name__} has logit_scale")
    if len(buffers := lm.new_cache(1).buffers) > 1:
        raise NotOursError("its layers have heads of several sizes")
    kv_heads, head_dim = buffers[0].shape[-3], buffers[0].shape[-1]
    embedding, head = lm.model.get_input_embeddings(), lm.model.get_output_embeddings()
    reader = _Reader(embedding.embedding_dim, head_dim)
    kinds = tuple(getattr(decoder.rotary_emb, "layer_types", ()))
    layers = tuple(
        reader.layer(
            module,
            scale=own.scale,
            window=own.window,
            cap=own.softmax.softcap,
            table=kinds.index(config.layer_types[index]) if kinds else 0,
        )
        for index, (module, own) in enumerate(zip(decoder.layers, lm.attending, strict=True))
    )
    norm = reader.norm(decoder.norm)
    reader.check_complete(lm.model, embedding, head)
    scale = getattr(embedding, "embed_scale", torch.ones(()))  # a tensor, rounded to the model's format
    return Decoder(
        layers,
        embedding,
        norm,
        head,
        reader.hidden,
        layers[0].q.out_features // head_dim,
        kv_heads,
        head_dim,
        lm.dtype,
        lambda: decoder.rotary_emb,
        kinds,
        embedding_multiplier=float(getattr(config, "embedding_multiplier", None) or 1.0) * float(scale.to(lm.dtype)),
        residual_multiplier=float(getattr(config, "residual_multiplier", None) or 1.0),
        logits_divisor=float(getattr(config, "logits_scaling", None) or 1.0),
        logits_cap=getattr(config, "final_logit_softcapping", None),
    )


def _of_head(head: EagleHead) -> Decoder:
    if isinstance(head, MtpHead):
        raise NotOursError("a multi-token prediction layer is of its target's own make")
    config = head.config
    if head.embedding.embedding_dim != config.hidden:
        raise NotOursError("its embedding has another width than its states")
    reader = _Reader(config.hidden, config.head_dim)
    scale, is_normed = config.head_dim**-0.5, config.norm_before_residual
    layers = tuple(reader.layer(module, scale=scale, residual_is_normed=is_normed) for module in head.layers)
    norms = [part for name, part in head.named_children() if name in ("input_norm", "fc_norm")]
    norm = reader.norm(head.norm)
    reader.check_complete(head, head.embedding, head.lm_head, head.fc, *norms)
    is_first = config.generation == 1
    return Decoder(
        layers,
        head.embedding,
        norm,
        head.lm_head,
        config.hidden,
        config.heads,
        config.kv_heads,
        config.head_dim,
        head.fc.weight.dtype,
        lambda: head.rotary,
        joined=head.fc if is_first else None,
        fused=None if is_first or norms else head.fc,
        feeds_normed=config.feeds_normed,
    )


class _Reader:
    """Reads modules, and remembers which parameters were read. Its methods raise NotOursError."""

    def __init__(self, hidden: int, head_dim: int) -> None:
        self.hidden, self.head_dim = hidden, head_dim
        self._read: set[int] = set()

    def layer(self, module: Any, **known: Any) -> DecoderLayer:
        """Attention and a gated MLP, and what is `known` of them."""
        attention: Any = getattr(module, "self_attn", None)
        mlp: Any = getattr(module, "mlp", None)
        some = torch.linspace(-4, 4, 16)
        activated = mlp.act_fn(some) if hasattr(mlp, "act_fn") else some
        is_gelu = torch.allclose(activated, gelu(some, approximate="tanh"))
        if not is_gelu and not torch.allclose(activated, silu(some)):
            raise NotOursError(f"{type(mlp).__name__} is no MLP with SiLU, or GELU by tanh")
        q, k, v, o = (self._linear(getattr(attention, f"{name}_proj", None)) for name in "qkvo")
        gate, up, down = (self._linear(getattr(mlp, f"{name}_proj", None)) for name in ("gate", "up", "down"))
        hidden, width = self.hidden, gate.out_features
        joined = 2 if getattr(module, "hidden_norm", None) is not None else 1  # embedding and state side by side
        if not (
            q.out_features % self.head_dim == 0
            and q.in_features == k.in_features == v.in_features == joined * hidden
            and k.out_features == v.out_features
            and (o.out_features, o.in_features) == (hidden, q.out_features)
            and (up.out_features, up.in_features) == (width, gate.in_features) == (width, hidden)
            and (down.out_features, down.in_features) == (hidden, width)
        ):
            raise NotOursError(f"{type(module).__name__} has projections of other sizes")
        after_attention = self.norm(getattr(module, "post_attention_layernorm", None))
        is_between = hasattr(module, "pre_feedforward_layernorm")  # attention and the MLP, each between two norms
        q_norm, k_norm = (self.norm(getattr(attention, name, None), self.head_dim) for name in ("q_norm", "k_norm"))
        return DecoderLayer(
            *(q, k, v, o, gate, up, down),
            attention_norm=self.norm(getattr(module, "input_layernorm", None)),
            mlp_norm=self.norm(module.pre_feedforward_layernorm) if is_between else after_attention,
            q_norm=q_norm,
            k_norm=k_norm,
            state_norm=self.norm(getattr(module, "hidden_norm", None)),
            attention_out=after_attention if is_between else None,
            mlp_out=self.norm(getattr(module, "post_feedforward_layernorm", None)),
            is_gelu=is_gelu,
            rotates=bool(getattr(attention, "use_rope", True)),
            **known,
        )

    def norm(self, module: Any, width: int | None = None) -> Norm | None:
        """An RMS norm of `width` numbers, by default of a state; None for none, and for the identity."""
        width = width or self.hidden
        if module is None or isinstance(module, nn.Identity):
            return None
        weight = getattr(module, "weight", None)
        epsilon = float(getattr(module, "variance_epsilon", getattr(module, "eps", 0.0)))
        if not isinstance(weight, Tensor) or weight.shape != (width,) or not epsilon:
            raise NotOursError(f"{type(module).__name__} is no RMS norm of {width} numbers")
        self._read.add(id(weight))
        with torch.no_grad():
            normed = module(torch.ones(1, width, device=weight.device))[0].float() * (1 + epsilon) ** 0.5
        for adds_one in (False, True):
            if torch.allclose(normed, weight.detach().float() + adds_one, rtol=1e-4, atol=1e-4):
                return Norm(weight.detach(), epsilon, adds_one)
        raise NotOursError(f"{type(module).__name__} is no RMS norm times its weight, or its weight and 1")

    def _linear(self, module: Any) -> nn.Linear:
        if not isinstance(module, nn.Linear):
            raise NotOursError(f"{type(module).__name__} is no linear layer")
        self._read |= {id(parameter) for parameter in module.parameters()}
        return module

    def check_complete(self, model: nn.Module, *others: nn.Module) -> None:
        """NotOursError where the model has parameters that nobody reads, but for those of `others`."""
        read = self._read | {id(parameter) for other in others for parameter in other.parameters()}
        for name, parameter in model.named_parameters():
            if id(parameter) not in read:
                raise NotOursError(f"{type(model).__name__} has {name}, which our own forwards do not know")
