"""Training of a block head (DFlash, arXiv 2602.06036, section 4): many blocks of one text in one forward.

A block begins at an anchor: a row of loss, whose next token is known. Its rows see the target's states up to the anchor
and each other, nothing else; its k-th prediction is compared with the target's distribution k tokens further on. Early
positions count more, because a wrong one makes those behind it useless.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import linear, scaled_dot_product_attention
from transformers import DynamicCache

from specextend_cli.engine.attention import ForwardContext
from specextend_cli.engine.attention.softmax import PLAIN, SoftmaxOptions
from specextend_cli.engine.block_head import BlockHead
from specextend_cli.train.config import Schedule
from specextend_cli.train.loss import Candidates, candidates, draft_targets
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
    chosen = candidates(wanted, schedule.likely, schedule.others)
    with target.precision:
        read = propose(head, rows, anchors)
        total, weights = torch.zeros((), device=wanted.device), 0.0
        for depth in range(head.config.depth):
            at = _predicted(rows, anchors, depth)
            if len(at.kept):
                weight = math.exp(-depth / _FADE)
                losses = _by_row(read[at.kept, depth], head.lm_head.weight, wanted[at.rows], chosen)
                total, weights = total + weight * losses.mean(), weights + weight
    return total / weights * head.config.depth


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
        anchors = anchors[_predicted(rows, anchors, depths - 1).kept]  # whole chains
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
    forward = ForwardContext(_Masked(visible(rows, anchors, config.block)))
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


class _Masked:
    """A differentiable `Backend` under one mask [n, keys]."""

    def __init__(self, mask: Tensor) -> None:
        self._mask = mask

    def __call__(
        self, q: Tensor, k: Tensor, v: Tensor, scale: float, tree_mask: Tensor | None, softmax: SoftmaxOptions = PLAIN
    ) -> Tensor:
        return scaled_dot_product_attention(q, k, v, attn_mask=self._mask, scale=scale, enable_gqa=True)


class _Kept:
    """Of the anchors, the numbers of those (`kept`) whose text goes on so far, and the `rows` predicted there."""

    def __init__(self, kept: Tensor, rows: Tensor) -> None:
        self.kept, self.rows = kept, rows


def _predicted(rows: Rows, anchors: Tensor, depth: int) -> _Kept:
    numbers = rows.numbers
    at = (anchors + depth).clamp(max=len(numbers) - 1)
    kept = (numbers[at] == numbers[anchors] + depth).nonzero().flatten()
    return _Kept(kept, at[kept])


def _by_row(read: Tensor, output: Tensor, wanted: Tensor, chosen: Candidates) -> Tensor:
    """The cross-entropy of each row of `read` [n, hidden] to wanted [n, draft vocabulary]; see `loss.cross_entropy`."""
    logits = linear(read, output[chosen.tokens]).float()
    share = wanted[:, chosen.tokens] * chosen.weights
    return share.sum(-1) * (logits + chosen.weights.log()).logsumexp(-1) - (share * logits).sum(-1)
