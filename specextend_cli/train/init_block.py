"""Initialization of a block head: from the target alone, or so that its first token is an EAGLE-3 head's.

Up to its MLP, what an EAGLE head makes of a token is nearly linear in two vectors: the target's fused state, and the
norm of the embedding of the token behind it. A row of a block has neither. So in the first layer two thirds of the
heads bring the newest state into every row, the others the block's first token, and their output is the best linear map
to the EAGLE head's state before its MLP. The last layer has that MLP, the ends its norm and output rows.

What these heads see is decided by RoPE alone. Their queries and keys are projections of rank one, of which the norms of
a block head leave constant vectors but for the sign. A key's sign tells states, first tokens and mask tokens apart, and
amplitudes of RoPE's frequencies let the score fall with every position of distance, without a second maximum.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from specextend_cli.engine.block_head import BlockConfig, BlockHead
from specextend_cli.engine.head import EagleHead, HeadConfig
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.errors import ModelError
from specextend_cli.train.init_head import init_ends, layer_weights
from specextend_cli.train.samples import Sample
from specextend_cli.train.target_logits import TargetReader
from specextend_cli.train.unroll import unroll

_REACH = 4.0  # positions, over which scores fall
_SCORES = 64.0, 32.0  # of a key at no distance, in the first layer and in the last
_STEEP = 400.0  # of projections to constants: an optimizer's steps are small beside it, and norms remove it
_NOISE = 0.05  # of the same projections
_SIZE = 3.0  # of a row after the first layer, root mean square; embeddings, of which rows begin, are small beside it
_RIDGE = 1e-3  # of a squared row


@torch.no_grad()
def init_block(
    lm: LanguageModel, sizes: HeadConfig, depth: int, layers: int, mask_token: int, vocabulary: Tensor
) -> BlockHead:
    """A trainable head in float32 that proposes `depth` tokens, of the `sizes` of an EAGLE-3 head for the target.

    It begins as the target's last layers, norm and output rows; norms of queries and keys, which a Llama has not, are
    one. Every row predicts the token behind it, and every attention head has keys of its own.
    """
    config = BlockConfig(
        hidden=sizes.hidden,
        target_hidden=sizes.target_hidden,
        heads=sizes.heads,
        kv_heads=sizes.heads,
        head_dim=sizes.head_dim,
        intermediate=sizes.intermediate,
        vocabulary=sizes.vocabulary,
        draft_vocabulary=len(vocabulary),
        feature_layers=sizes.feature_layers,
        block=depth,
        mask_token=mask_token,
        windows=(None,) * layers,
        is_causal=(False,) * layers,
        predicts_next=True,
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


def check_source(eagle: EagleHead) -> None:
    """ModelError unless `copy_eagle` can begin from this head."""
    config = eagle.config
    if config.layers != 1 or config.fc_norm or config.norm_before_fc or config.fc_bias or config.mlp_bias:
        raise ModelError(
            "no block head can begin from this head",
            why="it has more than one layer, biases of fc or of its MLP, or norms before fc; block heads do not",
            fix="leave --init out",
        )


@torch.no_grad()
def copy_eagle(head: BlockHead, eagle: EagleHead, target: TargetReader, samples: Iterable[Sample]) -> None:
    """Let `head`, of two layers or more, begin as `eagle`, whose states, vocabulary and sizes it has, on `samples`.

    Both are moved to the target's device.
    """
    head.to(target.lm.device)
    eagle.to(target.lm.device)
    layers: Any = head.layers
    source: Any = eagle.layers[0]
    first, last = layers[0], layers[-1]
    head.fc.weight.copy_(eagle.fc.weight)
    head.hidden_norm.weight.fill_(1.0)
    head.lm_head.weight.copy_(eagle.lm_head.weight)
    ends: Any = eagle.norm
    head.norm.weight.copy_(ends.weight)
    seen = observe(head, eagle, target, samples)
    scale = _SIZE / float(seen.read.square().mean().sqrt())

    first.input_layernorm.weight.copy_(source.input_layernorm.weight)
    mask = first.input_layernorm(head.embedding(head.mask_token)).expand(len(seen.tokens), -1)
    is_state = _telling((seen.states, 1), (seen.tokens, -1), (mask, -1))
    is_token = _telling((seen.tokens, 1), (seen.states, -1), (mask, -1))
    is_row = _telling((seen.tokens, 1), (mask, 1))
    heads, width = head.config.heads, head.config.head_dim
    copies = heads - heads // 3
    waves = _waves(head)
    attention = _silent(first, _SCORES[0])
    for index in range(heads):
        own = slice(index * width, (index + 1) * width)
        attention.q_proj.weight[own] += torch.outer(waves, is_row)
        attention.k_proj.weight[own] += torch.outer(waves, is_state if index < copies else is_token)
    for part, map_, inputs in (
        (slice(0, copies * width), seen.of_states, seen.states),
        (slice(copies * width, None), seen.of_tokens, seen.tokens),
    ):
        out, values = _of_rank(map_, inputs, len(attention.v_proj.weight[part]))
        attention.v_proj.weight[part] = values
        attention.o_proj.weight[:, part] = scale * out
    for middle in layers[:-1]:
        middle.mlp.down_proj.weight.zero_()

    # Heads that see the row itself, the one before it, and so on tell the rows of a block apart.
    row = last.input_layernorm(scale * seen.read)
    is_any = _telling((seen.states, 1), (row, 1))
    is_last = _telling((row, 1))
    attention = _silent(last, _SCORES[1])
    for distance in range(min(head.config.block, heads)):
        own = slice(distance * width, (distance + 1) * width)
        attention.q_proj.weight[own] += torch.outer(_waves(head, distance), is_last)
        attention.k_proj.weight[own] += torch.outer(waves, is_any)
    attention.o_proj.weight.zero_()
    for name, parameter in last.mlp.named_parameters():
        parameter.copy_(source.mlp.get_parameter(name))
    last.mlp.down_proj.weight.mul_(scale)
    last.post_attention_layernorm.weight.copy_(source.post_attention_layernorm.weight)


class Observed(NamedTuple):
    """Rows of an EAGLE head: normed fused `states` and embedded `tokens` [n, hidden], and the state `read` by its MLP.

    `of_states` and `of_tokens` [hidden, hidden] are the best linear maps of the two to the third.
    """

    states: Tensor
    tokens: Tensor
    read: Tensor
    of_states: Tensor
    of_tokens: Tensor


def observe(head: BlockHead, eagle: EagleHead, target: TargetReader, samples: Iterable[Sample]) -> Observed:
    """What `eagle` reads and computes in the rows of loss of `samples`, the states normed as `head` does."""
    source: Any = eagle.layers[0]
    found: list[tuple[Tensor, Tensor, Tensor]] = []
    read: list[Tensor] = []
    hook = source.post_attention_layernorm.register_forward_pre_hook(lambda _, inputs: read.append(inputs[0][0]))
    for sample in samples:
        rows = target.rows([sample], [target.states(sample)], torch.float32)
        unroll(eagle, rows, 1)
        known = rows.numbers >= 0
        embedded = source.input_layernorm(eagle.embedding(rows.tokens[rows.prompt :][known]))
        found.append((head.fuse(rows.features[rows.prompt :][known]), embedded, read.pop()[known]))
    hook.remove()
    states, tokens, wanted = (torch.cat(parts) for parts in zip(*found, strict=True))
    both = _ridge(torch.cat((states, tokens), 1), wanted).T
    return Observed(states, tokens, wanted, both[:, : states.shape[1]], both[:, states.shape[1] :])


def _ridge(inputs: Tensor, wanted: Tensor) -> Tensor:
    square = inputs.T @ inputs
    square += _RIDGE * len(inputs) * inputs.square().mean() * torch.eye(len(square), device=square.device)
    solved: Tensor = torch.linalg.solve(square, inputs.T @ wanted)
    return solved


def _telling(*groups: tuple[Tensor, int]) -> Tensor:
    """A projection [hidden] that is positive or negative on rows [n, hidden], as the sign beside them says."""
    rows = torch.cat([rows for rows, _ in groups])
    signs = torch.cat([torch.full((len(rows),), float(sign), device=rows.device) for rows, sign in groups])
    return _STEEP * _ridge(rows, signs)


def _waves(head: BlockHead, distance: int = 0) -> Tensor:
    """A vector [head_dim] before RoPE; a query of it scores most a key of `_waves(head)` so many positions before."""
    frequencies: Tensor = head.rotary.inv_freq.float()
    scaled = frequencies * _REACH
    # Behind one to six positions, no distance up to 9,000 scores more (bases of 1e6, 32 and 64 frequencies). Without
    # the root, which is the spectrum of exp(-distance / _REACH), some do.
    spectrum = scaled.sqrt() / (1 + scaled**2)
    size, angle = (spectrum / spectrum.sum()).sqrt(), -distance * frequencies
    return torch.cat((size * angle.cos(), size * angle.sin()))


def _silent(layer: Any, score: float) -> Any:
    """A layer's attention: small projections to queries and keys, norms with which scores reach `score`."""
    attention = layer.self_attn
    for project in (attention.q_proj, attention.k_proj):
        nn.init.normal_(project.weight, std=_NOISE)
    for norm in (attention.q_norm, attention.k_norm):
        norm.weight.fill_((score / attention.head_dim**0.5) ** 0.5)
    return attention


def _of_rank(map_: Tensor, inputs: Tensor, rank: int) -> tuple[Tensor, Tensor]:
    """[out, rank] and [rank, in], whose product is the map [out, in] where `inputs` [n, in] vary; values near one."""
    squares, axes = torch.linalg.eigh(inputs.T @ inputs / len(inputs))
    root = axes * squares.clamp(min=1e-8).sqrt()
    left, sizes, right = torch.linalg.svd(map_ @ root, full_matrices=False)
    kept = min(rank, len(sizes))  # heads together may be wider than the states
    out, values = map_.new_zeros(len(map_), rank), torch.randn(rank, map_.shape[1], device=map_.device) * _NOISE
    out[:, :kept] = left[:, :kept] * sizes[:kept]
    values[:kept] = right[:kept] @ torch.linalg.inv(root)
    return out, values
