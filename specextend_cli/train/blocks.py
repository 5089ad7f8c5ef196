"""Training of a block head (DFlash, arXiv 2602.06036, section 4): many blocks of one text in one forward.

A block begins at an anchor: a row of loss, whose next token is known. Its rows see the target's states up to the anchor
and each other, nothing else; its k-th prediction is compared with the target's distribution k tokens further on. Early
positions count more, because a wrong one makes those behind it useless.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import torch
from torch import Tensor
from transformers import DynamicCache

from specextend_cli.engine.attention import ForwardContext
from specextend_cli.engine.block_head import BlockHead
from specextend_cli.train.chain_attention import MaskedAttention
from specextend_cli.train.config import Schedule
from specextend_cli.train.loss import candidates, cross_entropy, draft_targets
from specextend_cli.train.samples import Sample, by_prompt
from specextend_cli.train.target_logits import TargetReader
from specextend_cli.train.unroll import Rows

_FADE = 4.0  # positions: the paper's, for blocks of eight
_APART = 4  # rows between two anchors of a measurement
_ROWS = 1024  # rows of loss at once, in a measurement


def block_loss(
    target: TargetReader,
    head: BlockHead,
    samples: Sequence[Sample],
    states: Sequence[Tensor],
    schedule: Schedule,
    order: random.Random,
) -> Tensor:
    """The mean cross-entropy of blocks at random anchors to the target's distributions, weighed by depth.

    As a sum: times the depth of the head, as the loss of an unrolled one is.
    """
    rows = target.rows(samples, states, head.fc.weight.dtype)
    usable = (rows.numbers >= 0).nonzero().flatten().tolist()
    anchors = torch.tensor(sorted(order.sample(usable, min(schedule.anchors, len(usable)))), device=rows.tokens.device)
    wanted = draft_targets(target.logits(samples, states), head.vocabulary)
    chosen = candidates(wanted)
    output = head.lm_head.weight[chosen.tokens]
    at, is_known = _predicted(rows, anchors, head.config.depth)
    with target.precision:
        read = propose(head, rows, anchors)
        by_row = cross_entropy(read[is_known], output, chosen.wanted[at[is_known]], chosen.weights)
    losses = torch.zeros(at.shape, device=at.device).masked_scatter(is_known, by_row)
    counts = is_known.sum(0)
    weights = torch.exp(-torch.arange(head.config.depth, device=at.device) / _FADE) * (counts > 0)
    return (weights * losses.sum(0) / counts.clamp(min=1)).sum() / weights.sum() * head.config.depth


@torch.no_grad()
def validate_blocks(
    target: TargetReader, head: BlockHead, samples: Sequence[Sample]
) -> tuple[tuple[float, ...], float]:
    """Agreement with the target's likeliest token by depth, and the accepted length of a chain, bonus included.

    Blocks begin at every fourth row. A chain is its block's likeliest tokens, so this is no estimate where the sample
    is the target's own greedy text; elsewhere each depth is compared with the target's choice after the sample's own.
    """
    depths = head.config.depth
    right, counted = torch.zeros(depths), torch.zeros(depths)
    chains, starts = 0.0, 0
    for group in by_prompt(samples, _ROWS):
        states = [target.states(sample) for sample in group]
        likeliest = target.logits(group, states).argmax(-1)
        rows = target.rows(group, states, head.fc.weight.dtype)
        anchors = ((rows.numbers >= 0) & (rows.numbers % _APART == 0)).nonzero().flatten()
        anchors = anchors[_predicted(rows, anchors, depths)[1].all(1)]  # whole chains
        if not len(anchors):
            continue
        with target.precision:
            read = propose(head, rows, anchors)
            drafted = torch.stack([head.vocabulary[head.lm_head(read[:, k]).argmax(-1)] for k in range(depths)], 1)
        hits = drafted == likeliest[anchors[:, None] + torch.arange(depths, device=anchors.device)]
        right += hits.sum(0).cpu()
        counted += len(anchors)
        chains += float(hits.int().cumprod(1).sum())
        starts += len(anchors)
    return tuple((right / counted.clamp(min=1)).tolist()), 1.0 + chains / max(starts, 1)


def propose(head: BlockHead, rows: Rows, anchors: Tensor) -> Tensor:
    """What `lm_head` reads in blocks [a, depth, hidden] that begin at the `anchors` [a], ascending rows of loss.

    Row i of a text joins the target's state at i, which is in the context, with the token after it, which the block
    begins with.
    """
    config, prompt, numbers = head.config, rows.prompt, rows.numbers
    device, count = anchors.device, len(anchors)
    context = head.fuse(rows.features)
    places = torch.cat((torch.arange(prompt, device=device), prompt + numbers.clamp(min=0)))
    own = places[prompt + anchors, None] + 1 + torch.arange(config.block, device=device)
    tokens = head.mask_token.expand(count, config.block).clone()
    tokens[:, 0] = rows.tokens[prompt + anchors]
    block = head.embedding(tokens.flatten()).to(context.dtype)
    rotary = head.rotary(context[None], torch.cat((places, own.flatten()))[None])
    forward = ForwardContext(MaskedAttention(visible(rows, anchors, config.block)))
    out = head.advance(block[None], context[None], rotary, DynamicCache(), [forward] * config.layers)
    first = not config.predicts_next
    blocks: Tensor = out[0].unflatten(0, (count, config.block))
    return blocks[:, first : first + config.depth]


def visible(rows: Rows, anchors: Tensor, block: int) -> Tensor:
    """Which rows each row of the blocks sees, [a * block, prompt + rows of loss + a * block] bool."""
    text = (rows.numbers == 0).cumsum(0)
    before = torch.arange(len(text), device=text.device) <= anchors[:, None]
    known = before & (text == text[anchors, None]) & (rows.numbers >= 0)
    context = torch.cat((known.new_ones(len(anchors), rows.prompt), known), 1).repeat_interleave(block, 0)
    own = torch.eye(len(anchors), dtype=torch.bool, device=text.device)
    return torch.cat((context, own.repeat_interleave(block, 0).repeat_interleave(block, 1)), 1)


def _predicted(rows: Rows, anchors: Tensor, depth: int) -> tuple[Tensor, Tensor]:
    """The rows that blocks at anchors [a] predict, and whether the same text still goes on there, both [a, depth]."""
    numbers, ahead = rows.numbers, torch.arange(depth, device=anchors.device)
    at = (anchors[:, None] + ahead).clamp(max=len(numbers) - 1)
    return at, numbers[at] == numbers[anchors, None] + ahead
