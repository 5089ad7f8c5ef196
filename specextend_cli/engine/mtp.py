"""A multi-token prediction layer (DeepSeek-V3, arXiv 2412.19437, section 2.2) as a draft head.

The layer comes with the target's checkpoint. It joins the target's last hidden state with the embedding of the next
token, each normalized, by one linear layer; a decoder layer of the target's own kind follows, a norm, and the target's
output layer. Published models have one such layer, which drafts further by reading its own output. transformers has
the modules and loads them; what is here gives them a cache and the interface of `EagleHead`.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn
from transformers import Cache

from specextend_cli.engine.attention import NAME, ForwardContext
from specextend_cli.engine.head import EagleHead
from specextend_cli.engine.head_config import HeadConfig
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.engine.step import Runner, Step


class MtpHead(EagleHead):
    """Row i joins the target's state at position i with the token at i + 1, as an EAGLE-1 head's does.

    `layer` is the module of transformers' `MtpModel`; embedding, RoPE and output layer are the target's.
    """

    def __init__(self, layer: nn.Module, target: LanguageModel) -> None:
        nn.Module.__init__(self)
        block: Any = layer
        self.layer = layer
        self.llama = copy.copy(block.config)
        self.llama._attn_implementation = NAME
        for module in layer.modules():  # each has a reference of its own
            if getattr(module, "config", None) is not None:
                module.config = self.llama
        self.llama.num_hidden_layers = 1
        self.stock = self.runner = Runner(self)
        decoder: Any = target.model.get_decoder()
        self.embedding = target.model.get_input_embeddings()
        self.lm_head = target.model.get_output_embeddings()
        self.rotary = decoder.rotary_emb
        self.fc = block.eh_proj
        config = target.config
        hidden, heads = int(config.hidden_size), int(config.num_attention_heads)
        self.config = HeadConfig(
            generation=1,
            hidden=hidden,
            target_hidden=hidden,
            heads=heads,
            kv_heads=int(getattr(config, "num_key_value_heads", None) or heads),
            head_dim=int(getattr(config, "head_dim", None) or hidden // heads),
            intermediate=int(getattr(config, "intermediate_size", None) or hidden),
            feature_layers=(target.layers,),
        )
        self.register_buffer("draft_to_target", torch.zeros(target.vocabulary, dtype=torch.long, device=target.device))

    def _apply(self, fn: Any, recurse: bool = True) -> MtpHead:
        """Its modules lie where the target's do."""
        nn.Module._apply(self, fn, recurse)
        return self

    def advance(
        self, embeddings: Tensor, states: Tensor, positions: Tensor, cache: Cache, context: ForwardContext
    ) -> tuple[Tensor, Tensor]:
        """See `EagleHead`. The next step reads what the output layer reads, as transformers' `generate` has it."""
        embedded, positions = embeddings[None].to(states.dtype), positions[None]
        out: Tensor = self.layer(
            embedded,
            states[None],
            position_embeddings=self.rotary(embedded, position_ids=positions),
            attention_mask=None,
            position_ids=positions,
            past_key_values=cache,
            context=context,
        )[0]
        return out, out

    def remember(self, step: Step) -> None:
        """See `EagleHead`."""
        self.run(step)
