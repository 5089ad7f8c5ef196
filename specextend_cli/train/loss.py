"""Cross-entropy to the target's distribution over a part of the draft's vocabulary: likely tokens, and a sample.

The output head is most of a small draft, and most of its rows do not matter for a given text. The tokens to which the
target gives most probability are used exactly; the others are represented by a random sample with weights. This
importance sampling estimates their sum without bias, and its logarithm slightly low.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import linear

_ROWS_AT_ONCE = 16  # rows of probabilities over the target's whole vocabulary


@dataclass(frozen=True)
class Candidates:
    """Draft tokens [c] that the loss is computed over; each counts as `weights` [c] tokens."""

    tokens: Tensor
    weights: Tensor


def candidates(wanted: Tensor, likely: int, others: int) -> Candidates:
    """The `likely` tokens of most probability in wanted [rows, draft vocabulary], and `others` of the rest at random.

    All tokens where there are no more.
    """
    size = wanted.shape[1]
    if size <= likely + others:
        return Candidates(torch.arange(size, device=wanted.device), wanted.new_ones(size))
    order = wanted.sum(0).argsort(descending=True)
    drawn = order[likely:][torch.randperm(size - likely)[:others].to(wanted.device)]
    weights = wanted.new_ones(likely + others)
    weights[likely:] = (size - likely) / others
    return Candidates(torch.cat((order[:likely], drawn)), weights)


def cross_entropy(
    states: Sequence[Tensor], numbers: Tensor, output: Tensor, wanted: Tensor, chosen: Candidates
) -> list[Tensor]:
    """By step, the mean over its rows of the cross-entropy to wanted [rows, draft vocabulary].

    `states` are what the output head, of weights [draft vocabulary, hidden], reads in every step, and `numbers` [rows]
    tell which rows count in which (see `unroll`). Mass that `wanted` has outside the draft's vocabulary counts nothing.
    """
    rows = output[chosen.tokens]
    shift = chosen.weights.log()
    wanted = wanted[:, chosen.tokens] * chosen.weights
    mass, losses = wanted.sum(-1), []
    for step, read in enumerate(states):
        logits = linear(read, rows).float()
        by_row = mass * (logits + shift).logsumexp(-1) - (wanted * logits).sum(-1)
        losses.append(by_row[numbers >= step].mean())
    return losses


def draft_targets(targets: Tensor, vocabulary: Tensor) -> Tensor:
    """The target's probabilities [rows, draft vocabulary] of the draft's tokens, from its logits [rows, vocabulary]."""
    wanted = torch.empty(len(targets), len(vocabulary), device=targets.device)
    # A few rows at a time stay in the processor's cache.
    for some, into in zip(targets.split(_ROWS_AT_ONCE), wanted.split(_ROWS_AT_ONCE), strict=True):
        torch.index_select(some.softmax(-1, dtype=torch.float32), 1, vocabulary, out=into)
    return wanted
