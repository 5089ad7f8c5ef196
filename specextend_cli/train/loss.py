"""Cross-entropy to the target's distribution over a part of the draft's vocabulary: likely tokens, and a sample.

The output head is most of a small draft, and most of its rows do not matter for a given text. The tokens to which the
target gives most probability are used exactly; the others are represented by a random sample with weights. This
importance sampling estimates their sum without bias, and its logarithm slightly low.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import linear

_ROWS_AT_ONCE = 16  # rows of probabilities over the target's whole vocabulary


@dataclass(frozen=True)
class Candidates:
    """Draft tokens [c] that the loss is computed over; each counts as `weights` [c] tokens, and is `wanted` [rows, c].

    Mass that the target gives to tokens outside the draft's vocabulary counts nothing.
    """

    tokens: Tensor
    weights: Tensor
    wanted: Tensor


def candidates(wanted: Tensor, likely: int = 2048, others: int = 1024) -> Candidates:
    """The `likely` tokens of most probability in wanted [rows, draft vocabulary], and `others` of the rest at random.

    All tokens where there are no more.
    """
    size = wanted.shape[1]
    if size <= likely + others:
        return Candidates(torch.arange(size, device=wanted.device), wanted.new_ones(size), wanted)
    order = wanted.sum(0).argsort(descending=True)
    drawn = order[likely:][torch.randperm(size - likely)[:others].to(wanted.device)]
    weights = wanted.new_ones(likely + others)
    weights[likely:] = (size - likely) / others
    tokens = torch.cat((order[:likely], drawn))
    return Candidates(tokens, weights, wanted[:, tokens] * weights)


def cross_entropy(states: Tensor, output: Tensor, wanted: Tensor, weights: Tensor) -> Tensor:
    """The cross-entropy [n] to `wanted` [n, c] of what an output head of rows [c, hidden] makes of states [n, hidden].

    `output` are the rows of the candidates, of which each counts as `weights` [c] tokens.
    """
    logits = linear(states, output).float()
    return wanted.sum(-1) * (logits + weights.log()).logsumexp(-1) - (wanted * logits).sum(-1)


def draft_targets(targets: Tensor, vocabulary: Tensor) -> Tensor:
    """The target's probabilities [rows, draft vocabulary] of the draft's tokens, from its logits [rows, vocabulary]."""
    wanted = torch.empty(len(targets), len(vocabulary), device=targets.device)
    # A few rows at a time stay in the processor's cache.
    for some, into in zip(targets.split(_ROWS_AT_ONCE), wanted.split(_ROWS_AT_ONCE), strict=True):
        torch.index_select(some.softmax(-1, dtype=torch.float32), 1, vocabulary, out=into)
    return wanted
