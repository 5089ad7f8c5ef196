"""A block drafter's head: one forward proposes several tokens, whose positions see each other and the target's states.

DFlash (arXiv 2602.06036) runs the last token and mask tokens through a few decoder layers. In every layer their queries
attend to the whole block, in both directions, and to the context: keys and values that the layer computes from the
target's own hidden states, fused by one linear layer and normed. A key of the context depends on nothing but the
target's state at its position, so a working set leaves the kept keys exactly as they were. DSpark (arXiv 2607.05147)
adds a Markov head, which scores a token by the one before it, and a confidence head, which tells how far to trust a
position. The layers are Qwen3's; the same module drafts and is trained.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor, nn
from transformers import Cache, LlamaConfig
from transformers.models.llama.modeling_llama import LlamaMLP, LlamaRMSNorm, LlamaRotaryEmbedding, apply_rotary_pos_emb

from specextend_cli.engine.attention import ForwardContext, register
from specextend_cli.engine.attention.function import Backend, attend
from specextend_cli.engine.cache import KVCache
from specextend_cli.engine.draft_head import DraftConfig, DraftHead
from specextend_cli.engine.forward import HeadOutput, WholeDrafts
from specextend_cli.engine.markov_head import ConfidenceHead, MarkovHead, MarkovKind

_Rotary: TypeAlias = tuple[Tensor, Tensor]


@dataclass(frozen=True, kw_only=True)
class BlockConfig(DraftConfig):
    """Sizes and variants of a head; every published layout reduces to these.

    `block` rows run in one forward: the last token at its own position, then mask tokens. `predicts_next` says what a
    row's logits are of: the token after it (DSpark, DeepSpec), so that all rows predict, or the one in its own place
    (DFlash), so that the first predicts nothing. `windows` has the newest positions that each layer attends to, None:
    all. In layers with a window, or in all, a row sees only itself and the rows before it, as `is_causal` tells by
    layer. `markov` is the kind of Markov head, of `markov_rank`; `confidence_reads_token`: the confidence head reads
    what the Markov head makes of the token before.
    """

    block: int
    mask_token: int
    windows: tuple[int | None, ...]
    is_causal: tuple[bool, ...]
    predicts_next: bool = False
    max_position: int = 4096
    markov: MarkovKind | None = None
    markov_rank: int = 0
    confidence: bool = False
    confidence_reads_token: bool = False

    def __post_init__(self) -> None:
        if self.depth < 1:
            raise ValueError("a block of one row predicts nothing")
        if not len(self.windows) == len(self.is_causal) > 0:
            raise ValueError("every layer has a window, or none, and sees the block in both directions, or not")
        if (self.markov is None) != (self.markov_rank == 0) or (self.confidence_reads_token and not self.markov):
            raise ValueError("a Markov head has a kind and a rank, and a confidence head that reads tokens needs it")

    @property
    def layers(self) -> int:
        """Decoder layers."""
        return len(self.windows)

    @property
    def depth(self) -> int:
        """Tokens that one forward proposes in a row."""
        return self.block - (not self.predicts_next)

    @property
    def name(self) -> Literal["dflash", "dspark"]:
        """The architecture, as papers call it."""
        return "dspark" if self.markov or self.confidence else "dflash"

    @property
    def sliding_window(self) -> int | None:
        """Positions that no layer sees beyond; None where one sees all."""
        return None if None in self.windows else max(window for window in self.windows if window is not None)

    def to_llama(self) -> LlamaConfig:
        """The stock configuration its parts are built from."""
        return self.llama(self.layers)


class _Attention(nn.Module):
    """Grouped-query attention with norms of queries and keys; context and block share its projections."""

    def __init__(self, config: BlockConfig, index: int) -> None:
        super().__init__()
        self.layer_idx, self.head_dim, self.window = index, config.head_dim, config.windows[index]
        if self.window is not None and not config.is_causal[index]:
            self.window += config.block  # of the context, every row sees the same: what the first one does
        for name, heads in (("q_proj", config.heads), ("k_proj", config.kv_heads), ("v_proj", config.kv_heads)):
            setattr(self, name, nn.Linear(config.hidden, heads * config.head_dim, bias=config.attention_bias))
        self.o_proj = nn.Linear(config.heads * config.head_dim, config.hidden, bias=config.attention_bias)
        self.q_norm = LlamaRMSNorm(config.head_dim, eps=config.eps)
        self.k_norm = LlamaRMSNorm(config.head_dim, eps=config.eps)

    def keys(self, states: Tensor, rotary: _Rotary) -> tuple[Tensor, Tensor]:
        """Keys after RoPE and values [1, kv heads, n, head_dim] of states [1, n, hidden]."""
        keys, values = (self._heads(project, states) for project in (self.k_proj, self.v_proj))
        keys = self.k_norm(keys).transpose(1, 2)
        return apply_rotary_pos_emb(keys, keys, *rotary)[1], values.transpose(1, 2)

    def forward(self, block: Tensor, context: Tensor, rotary: _Rotary, cache: Cache, forward: ForwardContext) -> Tensor:
        """Of block rows [1, b, hidden] over the cache, new context rows [1, m, hidden] and themselves."""
        rows = block.shape[1]
        own = (rotary[0][:, -rows:], rotary[1][:, -rows:])
        queries = self.q_norm(self._heads(self.q_proj, block)).transpose(1, 2)
        queries = apply_rotary_pos_emb(queries, queries, *own)[0]
        keys, values = self.keys(torch.cat((context, block), 1), rotary)
        keys, values = cache.update(keys, values, self.layer_idx)
        attended, _ = attend(self, queries, keys, values, None, context=forward, sliding_window=self.window)
        out: Tensor = self.o_proj(attended.reshape(1, rows, -1))
        return out

    def _heads(self, project: Any, states: Tensor) -> Tensor:
        heads: Tensor = project(states).view(*states.shape[:-1], -1, self.head_dim)
        return heads


class _Layer(nn.Module):
    """A decoder layer; the context comes in as it is, the block's rows are normed."""

    def __init__(self, config: BlockConfig, llama: LlamaConfig, index: int) -> None:
        super().__init__()
        self.self_attn = _Attention(config, index)
        self.mlp = LlamaMLP(llama)
        self.input_layernorm = LlamaRMSNorm(config.hidden, eps=config.eps)
        self.post_attention_layernorm = LlamaRMSNorm(config.hidden, eps=config.eps)

    def forward(self, block: Tensor, context: Tensor, rotary: _Rotary, cache: Cache, forward: ForwardContext) -> Tensor:
        block = block + self.self_attn(self.input_layernorm(block), context, rotary, cache, forward)
        out: Tensor = block + self.mlp(self.post_attention_layernorm(block))
        return out


class BlockHead(DraftHead):
    """Proposes a block after the target's states. Row i of its cache is the target's state at position i."""

    config: BlockConfig
    mask_token: Tensor
    drafts: WholeDrafts | None = None
    """What drafts whole trees with it, if anything does."""

    def __init__(self, config: BlockConfig) -> None:
        super().__init__()
        register()
        self.config = config
        self.llama = config.to_llama()
        self.embedding = nn.Embedding(config.vocabulary, config.hidden)
        self.fc = nn.Linear(len(config.feature_layers) * config.target_hidden, config.hidden, bias=False)
        self.hidden_norm = LlamaRMSNorm(config.hidden, eps=config.eps)
        self.layers = nn.ModuleList(_Layer(config, self.llama, index) for index in range(config.layers))
        self.rotary = LlamaRotaryEmbedding(self.llama)
        self.norm = LlamaRMSNorm(config.hidden, eps=config.eps)
        self.lm_head = nn.Linear(config.hidden, config.draft_vocabulary, bias=False)
        self.markov_head: MarkovHead | None = None
        self.confidence_head: ConfidenceHead | None = None
        if config.markov is not None:
            sizes = config.vocabulary, config.draft_vocabulary, config.markov_rank, config.hidden
            self.markov_head = MarkovHead(config.markov, *sizes)
        if config.confidence:
            self.confidence_head = ConfidenceHead(config.hidden + config.confidence_reads_token * config.markov_rank)
        self.register_buffer("draft_to_target", torch.zeros(config.draft_vocabulary, dtype=torch.long))
        self.register_buffer("mask_token", torch.tensor([config.mask_token]), persistent=False)

    def fuse(self, features: Tensor) -> Tensor:
        """The target's states [n, layers * target hidden] -> the context [n, hidden]."""
        fused: Tensor = self.hidden_norm(self.fc(features))
        return fused

    def remember(self, context: Tensor, positions: Tensor, cache: Cache) -> None:
        """Append the keys and values of context rows [n, hidden] at positions [n]."""
        rotary = self.rotary(context[None], positions[None])
        for layer in self.layers:
            attention: Any = layer.self_attn
            cache.update(*attention.keys(context[None], rotary), attention.layer_idx)

    def embed_block(self, last: Tensor) -> Tensor:
        """The block's rows [b, hidden] behind the `last` token [1]."""
        tokens = torch.cat((last, self.mask_token.expand(self.config.block - 1)))
        rows: Tensor = self.embedding(tokens)
        return rows

    def forward(
        self, last: Tensor, context: Tensor, positions: Tensor, cache: Cache, backend: Backend, *, depth: int
    ) -> HeadOutput:
        """Propose `depth` tokens after the `last` one [1], of which `context` [m, hidden] has the states before it.

        `positions` [m + b] are those of the new context rows, then of the block; the cache has rows reserved for both,
        of which the block's are to be dropped.
        """
        config = self.config
        block = self.embed_block(last).to(context.dtype)
        rotary = self.rotary(context[None], positions[None])
        contexts = block_contexts(config.block, config.is_causal, cache, backend)
        states = self.advance(block[None], context[None], rotary, cache, contexts)
        first = not config.predicts_next
        read = states[0, first : first + depth]
        return HeadOutput(self.lm_head(read), read)

    def advance(
        self, block: Tensor, context: Tensor, rotary: _Rotary, cache: Cache, contexts: Sequence[ForwardContext]
    ) -> Tensor:
        """The block's final states [1, b, hidden], after the norm; `contexts` has one for each layer."""
        for layer, forward in zip(self.layers, contexts, strict=True):
            block = layer(block, context, rotary, cache, forward)
        out: Tensor = self.norm(block)
        return out


def block_contexts(rows: int, is_causal: Sequence[bool], cache: Cache, backend: Backend) -> list[ForwardContext]:
    """What each layer knows of a forward of `rows`: which of them see which, and where the cache's rows are."""
    positions = cache.positions if isinstance(cache, KVCache) else None
    device = cache.device if isinstance(cache, KVCache) else None
    both = torch.ones(rows, rows, dtype=torch.bool, device=device)
    whole = ForwardContext(backend, tree_mask=both, positions=positions)
    causal = replace(whole, tree_mask=both.tril(), blocks={})  # windows of the two differ
    return [causal if one else whole for one in is_causal]
