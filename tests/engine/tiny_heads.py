"""Tiny random EAGLE heads for the tiny models."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from specextend_cli.engine.head import EagleHead
from specextend_cli.engine.head_config import HeadConfig
from tests.engine.tiny_models import VOCABULARY

COMMON = {"hidden": 64, "target_hidden": 64, "heads": 4, "kv_heads": 2, "head_dim": 16, "intermediate": 96}
COMMON |= {"layers": 1, "embedding": VOCABULARY}
EAGLE1 = HeadConfig(**{**COMMON, "generation": 1, "draft_vocab": VOCABULARY, "feature_layers": (3,)})
EAGLE3 = HeadConfig(**{**COMMON, "generation": 3, "draft_vocab": 40, "feature_layers": (0, 1, 2)})

VARIANTS: dict[str, HeadConfig] = {
    "eagle1": EAGLE1,
    "eagle1-bias-2-layers": replace(EAGLE1, fc_bias=True, layers=2),
    "eagle1-qkv-bias": replace(EAGLE1, qkv_bias=True),
    "eagle3": EAGLE3,
    "eagle3-residual": replace(EAGLE3, norm_before_residual=True),
    "eagle3.1": replace(EAGLE3, fc_norm=True, feeds_normed=True),
    "eagle3-norm-before-fc": replace(EAGLE3, norm_before_fc=True),
    "eagle3-2-layers": replace(EAGLE3, layers=2, qkv_bias=True),
    "eagle3-qk-norm": replace(EAGLE3, qk_norm=True),
    "eagle3-five-states": replace(EAGLE3, qk_norm=True, feature_layers=(1, 2, 3, 2, 1), draft_vocab=VOCABULARY),
    "eagle3-narrow": replace(EAGLE3, hidden=32, heads=2, kv_heads=1, head_dim=24),
    "eagle3-whole-vocabulary": replace(EAGLE3, draft_vocab=VOCABULARY),
    "eagle3-linear-rope": replace(EAGLE3, rope={"rope_type": "linear", "rope_theta": 500.0, "factor": 4.0}),
}


def tiny_head(name: str = "eagle3", seed: int = 2, **changes: Any) -> EagleHead:
    """Random weights large enough that every part of the head changes its output; `changes` to the variant's fields."""
    torch.manual_seed(seed)
    config = replace(VARIANTS[name], **changes)
    head = EagleHead(config)
    for parameter in head.parameters():
        torch.nn.init.normal_(parameter, mean=float(parameter.dim() == 1), std=0.1)
    if config.draft_vocab < config.embedding:
        chosen = torch.randperm(config.embedding)[: config.draft_vocab].sort().values
        head.draft_to_target.copy_(chosen - torch.arange(len(chosen)))
    return head.eval()
