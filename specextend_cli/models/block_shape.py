"""Sizes of block heads (DFlash, DSpark), from their configurations, and the memory that follows from them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from specextend_cli.errors import ModelError
from specextend_cli.models.block_settings import BlockSettings
from specextend_cli.models.checkpoint import reason
from specextend_cli.models.shape import holds_embedding, tensor_names


class BlockShape(BaseModel):
    """A head of Qwen3's layers that proposes `block` rows in one forward and fuses `fused` states of the target.

    `draft_vocab` and `embedding` are the rows of its own output layer and embedding, 0 where it uses the target's.
    Copies of the target's count here, and are shared once the weights of both are known. `vocab` are the target's
    tokens, of which a Markov head of `markov_rank` has a row each; `output` are the tokens that it writes.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    block: int = Field(gt=0)
    layers: int = Field(gt=0)
    hidden: int = Field(gt=0)
    target_hidden: int | None = Field(default=None, gt=0)
    fused: int = Field(gt=0)
    heads: int = Field(gt=0)
    kv_heads: int = Field(gt=0)
    head_dim: int = Field(gt=0)
    intermediate: int = Field(gt=0)
    vocab: int = Field(default=0, ge=0)
    output: int = Field(default=0, ge=0)
    draft_vocab: int = Field(default=0, ge=0)
    embedding: int = Field(default=0, ge=0)
    attention_bias: bool = False
    markov_rank: int = Field(default=0, ge=0)
    markov: Literal["vanilla", "gated", "rnn"] = "vanilla"
    confidence: bool = False
    confidence_reads_token: bool = False

    @classmethod
    def of(cls, directory: Path) -> BlockShape:
        """Of a head on disk; ModelError where its configuration lacks a size."""
        said, names = BlockSettings.read(directory), tensor_names(directory)
        heads, hidden, vocab, layers = (
            said.num_attention_heads,
            said.hidden_size,
            said.vocab_size,
            said.num_hidden_layers,
        )
        try:
            if not (heads and hidden and vocab and layers and said.block_size and said.intermediate_size):
                raise ValueError("it lacks block_size, hidden_size, intermediate_size or another of its sizes")
            output = said.draft_vocab_size or vocab
            has_output = any(re.search(r"(^|\.)lm_head\.weight$", name) for name in names)
            confidence = any("confidence" in name for name in names) if names else bool(said.enable_confidence_head)
            rank = said.markov_rank or 0
            return cls(
                block=said.block_size,
                layers=layers,
                hidden=hidden,
                target_hidden=said.target_hidden_size,
                fused=len(said.state_ids or said.target_layer_ids or range(layers)),
                heads=heads,
                kv_heads=said.num_key_value_heads or heads,
                head_dim=said.head_dim or hidden // heads,
                intermediate=said.intermediate_size,
                vocab=vocab,
                output=output,
                draft_vocab=output if has_output else 0,
                embedding=vocab if holds_embedding(directory, vocab * hidden, output == vocab and has_output) else 0,
                attention_bias=said.attention_bias or False,
                markov_rank=rank,
                markov=said.markov_head_type or "vanilla",
                confidence=confidence,
                confidence_reads_token=bool(rank) and confidence and said.confidence_head_with_markov is not False,
            )
        except ValueError as error:
            what = f"the config.json in {directory} does not describe a DFlash or DSpark head"
            raise ModelError(what, why=reason(error)) from error

    @property
    def parameters(self) -> int:
        """Number of its own weights, without those shared with the target."""
        q, kv, rank, hidden = self.heads * self.head_dim, self.kv_heads * self.head_dim, self.markov_rank, self.hidden
        attention = hidden * (2 * q + 2 * kv) + 2 * self.head_dim + self.attention_bias * (q + 2 * kv + hidden)
        layer = attention + 3 * hidden * self.intermediate + 2 * hidden
        fuse = self.fused * (self.target_hidden or hidden) * hidden + 2 * hidden  # two norms
        inner = {"vanilla": 0, "gated": (hidden + rank + 1) * rank, "rnn": (2 * rank + hidden + 1) * 3 * rank}
        markov = rank * (self.vocab + self.output) + (inner[self.markov] if rank else 0)
        confidence = self.confidence * (hidden + self.confidence_reads_token * rank + 1)
        return self.layers * layer + fuse + markov + confidence + (self.draft_vocab + self.embedding) * hidden

    def weight_bytes(self, item: int = 2) -> int:
        """Bytes of the weights, `item` bytes a number."""
        return self.parameters * item

    def kv_bytes_per_token(self, item: int = 2) -> int:
        """Bytes that one token adds to its cache."""
        return 2 * self.layers * self.kv_heads * self.head_dim * item
