"""Sizes of block heads (DFlash, DSpark), from their configurations, and the memory that follows from them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal

from pydantic import Field

from specextend_cli.models.block_settings import BlockSettings
from specextend_cli.models.head_settings import describing
from specextend_cli.models.shape import DraftShape, holds_embedding, tensor_names


class BlockShape(DraftShape):
    """A head of Qwen3's layers that proposes `block` rows in one forward.

    `vocab` are the target's tokens, of which a Markov head of `markov_rank` has a row each; `output` are the tokens
    that it writes.
    """

    block: int = Field(gt=0)
    vocab: int = Field(default=0, ge=0)
    output: int = Field(default=0, ge=0)
    markov_rank: int = Field(default=0, ge=0)
    markov: Literal["vanilla", "gated", "rnn"] = "vanilla"
    confidence: bool = False
    confidence_reads_token: bool = False

    @classmethod
    def of(cls, directory: Path) -> BlockShape:
        """Of a head on disk; ModelError where its configuration lacks a size."""
        said, names = BlockSettings.read(directory), tensor_names(directory)
        heads, hidden = said.num_attention_heads, said.hidden_size
        vocab, layers = said.vocab_size, said.num_hidden_layers
        with describing(directory, "a DFlash or DSpark head"):
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

    @property
    def parameters(self) -> int:
        """See `DraftShape`."""
        q, kv, rank, hidden = self.heads * self.head_dim, self.kv_heads * self.head_dim, self.markov_rank, self.hidden
        attention = hidden * (2 * q + 2 * kv) + 2 * self.head_dim + self.attention_bias * (q + 2 * kv + hidden)
        layer = attention + 3 * hidden * self.intermediate + 2 * hidden
        fuse = self.fused * (self.target_hidden or hidden) * hidden + 2 * hidden  # two norms
        inner = {"vanilla": 0, "gated": (hidden + rank + 1) * rank, "rnn": (2 * rank + hidden + 1) * 3 * rank}
        markov = rank * (self.vocab + self.output) + (inner[self.markov] if rank else 0)
        confidence = self.confidence * (hidden + self.confidence_reads_token * rank + 1)
        return self.layers * layer + fuse + markov + confidence + (self.draft_vocab + self.embedding) * hidden
