"""What EAGLE heads and block heads have in common: sizes, a part of the target's vocabulary, RoPE and a cache."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from torch import Tensor, arange, nn
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

from specextend_cli.engine.attention import NAME
from specextend_cli.engine.cache import KVCache

H = TypeVar("H", bound="DraftHead")


@dataclass(frozen=True, kw_only=True)
class DraftConfig:
    """Sizes of a head. `feature_layers` are the target's hidden states that it reads, as transformers numbers them.

    That is, i is the input of layer i, the number of layers the state after the final norm. `rope` is transformers'
    `rope_parameters`.
    """

    hidden: int
    target_hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocabulary: int
    draft_vocabulary: int
    feature_layers: tuple[int, ...]
    eps: float = 1e-6
    activation: str = "silu"
    rope: dict[str, Any] = field(default_factory=lambda: {"rope_type": "default", "rope_theta": 10000.0})
    max_position: int = 2048
    attention_bias: bool = False

    def llama(self, layers: int, **biases: Any) -> LlamaConfig:
        """The stock configuration its parts are built from."""
        config = LlamaConfig(
            hidden_size=self.hidden,
            intermediate_size=self.intermediate,
            num_hidden_layers=layers,
            num_attention_heads=self.heads,
            num_key_value_heads=self.kv_heads,
            head_dim=self.head_dim,
            vocab_size=self.vocabulary,
            rms_norm_eps=self.eps,
            hidden_act=self.activation,
            rope_parameters=dict(self.rope),
            max_position_embeddings=self.max_position,
            **biases,
        )
        config._attn_implementation = NAME
        return config


class DraftHead(nn.Module):
    """`embedding` and, with the target's vocabulary, `lm_head` may be the target's modules.

    `draft_to_target` [draft vocabulary] is, as in published checkpoints, each row's token id minus its row. `llama` is
    the configuration of its layers.
    """

    draft_to_target: Tensor
    remarks: tuple[str, ...] = ()
    """What its user should know, found when it was loaded."""
    config: Any
    llama: Any
    fc: Any
    rotary: Any

    def _apply(self: H, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> H:
        """Move or cast everything but RoPE's angles, which half precision makes wrong by radians at high positions."""
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self.rotary = LlamaRotaryEmbedding(self.llama).to(self.fc.weight.device)
        return self

    @property
    def vocabulary(self) -> Tensor:
        """The target's token for each row of the draft vocabulary."""
        return self.draft_to_target + arange(len(self.draft_to_target), device=self.draft_to_target.device)

    @property
    def frequencies(self) -> Tensor:
        """RoPE's angle per position, [head_dim / 2]."""
        frequencies: Tensor = self.rotary.inv_freq
        return frequencies.float()

    def new_cache(self, capacity: int) -> KVCache:
        """An empty cache for the head's layers."""
        weight = self.fc.weight
        return KVCache(self.llama, capacity=capacity, dtype=weight.dtype, device=weight.device)
