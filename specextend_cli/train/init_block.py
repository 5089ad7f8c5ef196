"""Initialization of a block head: the target's last layers and output rows, reading the target's states.

Its context starts as the target's late state, and each of its layers as one of the target's; norms of queries and keys,
which a Llama does not have, start at one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from specextend_cli.engine.block_head import BlockConfig, BlockHead
from specextend_cli.engine.head import HeadConfig
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.train.init_head import init_ends, layer_weights
from specextend_cli.train.vocabulary import count


@torch.no_grad()
def init_block(
    lm: LanguageModel, sizes: HeadConfig, depth: int, layers: int, mask_token: int, vocabulary: Tensor
) -> BlockHead:
    """A trainable head in float32 that proposes `depth` tokens, of the `sizes` of an EAGLE-3 head for the target."""
    config = BlockConfig(
        hidden=sizes.hidden,
        target_hidden=sizes.target_hidden,
        heads=sizes.heads,
        kv_heads=sizes.kv_heads,
        head_dim=sizes.head_dim,
        intermediate=sizes.intermediate,
        vocabulary=sizes.vocabulary,
        draft_vocabulary=len(vocabulary),
        feature_layers=sizes.feature_layers,
        block=depth + 1,
        mask_token=mask_token,
        windows=(None,) * layers,
        is_causal=(False,) * layers,
        eps=sizes.eps,
        rope=sizes.rope,
        max_position=sizes.max_position,
    )
    head = BlockHead(config)
    init_ends(head, lm, vocabulary)
    for index, layer in enumerate(head.layers):
        own = layer_weights(lm, index - layers)
        for name, tensor in layer.state_dict().items():
            if name in own and own[name].shape == tensor.shape:
                tensor.copy_(own[name])
    head.hidden_norm.weight.copy_(layer_weights(lm, -layers)["input_layernorm.weight"])
    return head


def unused_token(vocabulary: int, texts: Iterable[Sequence[int]], ends: Sequence[int]) -> int:
    """The token that stands for what is not known yet: one of the least frequent in `texts`, and none of the `ends`."""
    counts = count(texts, vocabulary)
    counts[list(ends)] = counts.max() + 1
    return int(counts.argmin())
