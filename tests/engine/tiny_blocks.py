"""Tiny random block heads for the tiny models."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from specextend_cli.engine.block_head import BlockConfig, BlockHead
from tests.engine.tiny_models import VOCABULARY

DFLASH = BlockConfig(
    hidden=64,
    target_hidden=64,
    heads=4,
    kv_heads=2,
    head_dim=16,
    intermediate=96,
    vocabulary=VOCABULARY,
    draft_vocabulary=VOCABULARY,
    feature_layers=(0, 1, 2),
    block=6,
    mask_token=VOCABULARY - 1,
    windows=(None, None),
    is_causal=(False, False),
    rope={"rope_type": "default", "rope_theta": 500.0},
)
DSPARK = replace(
    DFLASH, block=5, predicts_next=True, markov="vanilla", markov_rank=8, confidence=True, confidence_reads_token=True
)

VARIANTS: dict[str, BlockConfig] = {
    "dflash": DFLASH,
    "dflash-one-layer": replace(DFLASH, windows=(None,), is_causal=(False,), attention_bias=True),
    "dflash-sliding": replace(DFLASH, windows=(20, None), is_causal=(True, False)),
    "dflash-sliding-both-ways": replace(DFLASH, windows=(None, 20)),
    "dflash-causal": replace(DFLASH, is_causal=(True, True), draft_vocabulary=40),
    "deepspec-dflash": replace(DFLASH, block=5, predicts_next=True),
    "dspark": DSPARK,
    "dspark-gated": replace(DSPARK, markov="gated", confidence_reads_token=False, draft_vocabulary=40),
    "dspark-rnn": replace(DSPARK, markov="rnn", draft_vocabulary=40),
    "dspark-confidence-alone": replace(DSPARK, markov=None, markov_rank=0, confidence_reads_token=False),
}


def tiny_block(name: str = "dflash", seed: int = 3, **changes: Any) -> BlockHead:
    """Random weights large enough that every part of the head changes its output; `changes` to the variant's fields."""
    torch.manual_seed(seed)
    config = replace(VARIANTS[name], **changes)
    head = BlockHead(config)
    for parameter in head.parameters():
        torch.nn.init.normal_(parameter, mean=float(parameter.dim() == 1), std=0.1)
    if head.markov_head is not None:
        torch.nn.init.normal_(head.markov_head.markov_w2.weight, std=1.0)
    if config.draft_vocabulary < config.vocabulary:
        chosen = torch.randperm(config.vocabulary)[: config.draft_vocabulary].sort().values
        head.draft_to_target.copy_(chosen - torch.arange(len(chosen)))
    return head.eval()
