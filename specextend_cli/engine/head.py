"""An EAGLE draft head: one or a few decoder layers that continue the target's hidden states.

EAGLE-1/2 (arXiv 2401.15077, 2406.16858) joins the target's last state with the next token's embedding in one linear
layer. EAGLE-3 (arXiv 2503.01840) fuses states of several layers, and its first layer attends over embedding and state
side by side. Further draft steps read the head's own output. EAGLE-3.1 (arXiv 2605.09992) normalizes both kinds of
states. A head consists of transformers' Llama modules; the same module drafts and is trained.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from transformers import Cache, LlamaConfig
from transformers.models.llama.modeling_llama import (
    LlamaAttention,
    LlamaMLP,
    LlamaRMSNorm,
    LlamaRotaryEmbedding,
    apply_rotary_pos_emb,
)
from transformers.models.qwen3.modeling_qwen3 import Qwen3Attention

from specextend_cli.engine.attention import NAME, ForwardContext
from specextend_cli.engine.cache import KVCache
from specextend_cli.engine.head_config import HeadConfig
from specextend_cli.engine.step import Output, Runner, Step

if TYPE_CHECKING:
    from specextend_cli.engine.lm import LanguageModel


def _llama(config: HeadConfig) -> LlamaConfig:
    """The stock configuration that the layers are built from."""
    llama = LlamaConfig(
        hidden_size=config.hidden,
        intermediate_size=config.intermediate,
        num_hidden_layers=config.layers,
        num_attention_heads=config.heads,
        num_key_value_heads=config.kv_heads,
        head_dim=config.head_dim,
        rms_norm_eps=config.eps,
        rope_parameters=dict(config.rope),
        max_position_embeddings=config.max_position,
    )
    llama._attn_implementation = NAME
    return llama


class _Layer(nn.Module):
    """A decoder layer; the first one of EAGLE-3 attends over [embedding, state]."""

    def __init__(self, config: HeadConfig, llama: LlamaConfig, index: int) -> None:
        super().__init__()
        self.is_fused = config.generation == 3 and index == 0
        self.norm_before_residual = config.norm_before_residual
        attention: Any = Qwen3Attention if config.qk_norm else LlamaAttention
        self.self_attn = attention(llama, index)
        for name in ("q_proj", "k_proj", "v_proj"):
            stock = getattr(self.self_attn, name)
            reads = 2 * config.hidden if self.is_fused else config.hidden
            setattr(self.self_attn, name, nn.Linear(reads, stock.out_features, bias=config.qkv_bias))
        if self.is_fused:
            self.hidden_norm = LlamaRMSNorm(config.hidden, eps=config.eps)
        # EAGLE-1's states have passed the target's final norm.
        if config.generation == 3 or index > 0:
            self.input_layernorm = LlamaRMSNorm(config.hidden, eps=config.eps)
        self.post_attention_layernorm = LlamaRMSNorm(config.hidden, eps=config.eps)
        self.mlp = LlamaMLP(llama)

    def forward(self, states: Tensor, embeddings: Tensor, **attention: Any) -> Tensor:
        residual, read = self._read(states, embeddings)
        states = residual + self.self_attn(read, attention_mask=None, **attention)[0]
        out: Tensor = states + self.mlp(self.post_attention_layernorm(states))
        return out

    def remember(self, states: Tensor, embeddings: Tensor, rotary: tuple[Tensor, Tensor], cache: Cache) -> None:
        """Append the keys and values of states whose output is not needed."""
        _, read = self._read(states, embeddings)
        attention = self.self_attn
        shape = (*read.shape[:-1], -1, attention.head_dim)
        keys, values = (project(read).view(shape) for project in (attention.k_proj, attention.v_proj))
        keys = attention.k_norm(keys) if hasattr(attention, "k_norm") else keys
        keys, values = keys.transpose(1, 2), values.transpose(1, 2)
        _, keys = apply_rotary_pos_emb(keys, keys, *rotary)
        cache.update(keys, values, attention.layer_idx)

    def _read(self, states: Tensor, embeddings: Tensor) -> tuple[Tensor, Tensor]:
        """The residual, and the input of attention."""
        if self.is_fused:
            normed = self.hidden_norm(states)
            residual = normed if self.norm_before_residual else states
            return residual, torch.cat((self.input_layernorm(embeddings), normed), -1)
        return states, self.input_layernorm(states) if hasattr(self, "input_layernorm") else states


class EagleHead(nn.Module):
    """Continues a target's states. Row i joins the target's state at position i with the token at i + 1.

    `embedding` and, with the target's vocabulary, `lm_head` are the target's modules where it has none of its own.
    `draft_to_target` [draft vocabulary] is, as in published checkpoints, each row's token id minus its row. `llama` is
    the configuration of its layers.
    """

    draft_to_target: Tensor
    remarks: tuple[str, ...] = ()
    """What its user should know, found when it was loaded."""
    llama: Any
    fc: Any
    rotary: Any

    def __init__(self, config: HeadConfig, target: LanguageModel | None = None) -> None:
        """`target` is needed for what the head shares with it."""
        super().__init__()
        self.config = config
        self.stock = self.runner = Runner(self)
        self.llama = _llama(config)
        self.embedding: Any = nn.Embedding(config.embedding, config.hidden) if config.embedding else None
        self.fc = nn.Linear(config.joined, config.hidden, bias=config.fc_bias)
        self.layers = nn.ModuleList(_Layer(config, self.llama, index) for index in range(config.layers))
        self.rotary = LlamaRotaryEmbedding(self.llama)
        self.norm = LlamaRMSNorm(config.hidden, eps=config.eps) if config.generation == 3 else nn.Identity()
        self.lm_head: Any = nn.Linear(config.hidden, config.draft_vocab, bias=False) if config.draft_vocab else None
        if config.norm_before_fc:
            self.input_norm = LlamaRMSNorm(config.joined, eps=config.eps)
        if config.fc_norm:
            norms = (LlamaRMSNorm(config.target_hidden, eps=config.eps) for _ in range(config.fused))
            self.fc_norm = nn.ModuleList(norms)
        if target is not None:
            self.embedding = self.embedding or target.model.get_input_embeddings()
            self.lm_head = self.lm_head or target.model.get_output_embeddings()
        rows = config.draft_vocab or (target.vocabulary if target else 0)
        self.register_buffer("draft_to_target", torch.zeros(rows, dtype=torch.long))

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> EagleHead:
        """Move or cast everything but RoPE's angles, which half precision makes wrong by radians at high positions."""
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self.rotary = LlamaRotaryEmbedding(self.llama).to(self.fc.weight.device)
        return self

    @property
    def vocabulary(self) -> Tensor:
        """The target's token for each row of the draft vocabulary."""
        return self.draft_to_target + torch.arange(len(self.draft_to_target), device=self.draft_to_target.device)

    def new_cache(self, capacity: int) -> KVCache:
        """An empty cache for the head's layers."""
        weight = self.fc.weight
        return KVCache(self.llama, capacity=capacity, dtype=weight.dtype, device=weight.device)

    def read_as(self, config: HeadConfig) -> None:
        """Compute as `config` says, which differs in the target's states and in what has no tensors. Before graphs."""
        self.config = config
        first: Any = self.layers[0]
        first.norm_before_residual = config.norm_before_residual

    def fuse(self, features: Tensor) -> Tensor:
        """The target's states [n, layers * target hidden] -> states [n, hidden] (EAGLE-1 reads them as they are)."""
        if self.config.generation == 1:
            return features
        if self.config.fc_norm:
            parts = features.split(self.config.target_hidden, -1)
            features = torch.cat([norm(part) for norm, part in zip(self.fc_norm, parts, strict=True)], -1)
        if self.config.norm_before_fc:
            features = self.input_norm(features)
        fused: Tensor = self.fc(features)
        return fused

    def run(self, step: Step) -> Output:
        """Each token joined with the state before it. Keys are appended to the cache, uncommitted."""
        step.reserve()
        return self.runner.run(step)

    def run_modules(self, step: Step) -> Output:
        """`run` by the head's own modules, rows being reserved."""
        states = self.states_of(step)
        hidden, after = self.advance(self.embedding(step.tokens), states, step.positions, step.cache, step)
        return Output(self.lm_head(hidden[-step.logits_to_keep :]), state=after)

    def states_of(self, step: Step) -> Tensor:
        """What tokens are joined with, [rows, hidden]."""
        states = step.states if step.features is None else self.fuse(step.features)
        assert states is not None
        return states

    def advance(
        self, embeddings: Tensor, states: Tensor, positions: Tensor, cache: Cache, context: ForwardContext
    ) -> tuple[Tensor, Tensor]:
        """The inputs of `lm_head` and of the next step, both [n, hidden], for embedded tokens; see `run`."""
        hidden, embeddings, rotary = self._join(embeddings, states, positions)
        for layer in self.layers:
            hidden = layer(hidden, embeddings, position_embeddings=rotary, past_key_values=cache, context=context)
        out = hidden[0]
        normed: Tensor = self.norm(out)
        return normed, normed if self.config.feeds_normed else out

    def remember(self, step: Step) -> None:
        """`run` for the cache only: the last layer computes keys and values alone."""
        step.reserve()
        hidden, embeddings, rotary = self._join(self.embedding(step.tokens), self.states_of(step), step.positions)
        layers: Any = self.layers
        *earlier, last = layers
        for layer in earlier:
            hidden = layer(hidden, embeddings, position_embeddings=rotary, past_key_values=step.cache, context=step)
        last.remember(hidden, embeddings, rotary, step.cache)

    def _join(
        self, embeddings: Tensor, states: Tensor, positions: Tensor
    ) -> tuple[Tensor, Tensor, tuple[Tensor, Tensor]]:
        """The inputs of the layers, as a batch of one: states, embeddings, and RoPE's cos and sin."""
        embeddings = embeddings.to(states.dtype)
        hidden = states
        if self.config.generation == 1:
            hidden = self.fc(torch.cat((embeddings, states), -1))
        hidden = hidden[None]
        return hidden, embeddings[None], self.rotary(hidden, positions[None])
