"""Sizes and variants of an EAGLE head."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True)
class HeadConfig:
    """Sizes and variants of a head; every published layout reduces to these.

    `generation` is 1 (EAGLE-1 and -2 differ in how trees grow, not in the head) or 3. `draft_vocab` and `embedding` are
    the rows of its own output layer and embedding, 0 where it uses the target's. It reads `fused` states of the target
    of width `target_hidden`, which `feature_layers` name where the target is known, as transformers numbers them: i is
    the input of layer i, the number of layers the state after the final norm. `rope` is transformers'
    `rope_parameters`. Variants: `qkv_bias`: biases of the projections to queries, keys and values;
    `norm_before_residual`: the first layer's residual is the normed state; `norm_before_fc`: one norm over all fused
    states; `fc_norm`: one norm for each of them; `feeds_normed`: the next step reads the output after the final norm;
    `qk_norm`: queries and keys are normalized, as in Qwen3.
    ValueError for an EAGLE-1 head of other states.
    """

    generation: int = 3
    layers: int = 1
    hidden: int
    target_hidden: int
    fused: int = 3
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    draft_vocab: int = 0
    embedding: int = 0
    feature_layers: tuple[int, ...] = ()
    eps: float = 1e-6
    rope: dict[str, Any] = field(default_factory=lambda: {"rope_type": "default", "rope_theta": 10000.0})
    max_position: int = 2048
    fc_bias: bool = False
    qkv_bias: bool = False
    norm_before_residual: bool = False
    norm_before_fc: bool = False
    fc_norm: bool = False
    feeds_normed: bool = False
    qk_norm: bool = False

    def __post_init__(self) -> None:
        if self.feature_layers or self.generation == 1:
            object.__setattr__(self, "fused", len(self.feature_layers) or 1)
        if self.generation == 1 and (self.hidden != self.target_hidden or self.fused != 1):
            raise ValueError("an EAGLE-1 head reads one state of its own width")

    @property
    def joined(self) -> int:
        """Numbers that its `fc` reads."""
        return 2 * self.hidden if self.generation == 1 else self.fused * self.target_hidden
