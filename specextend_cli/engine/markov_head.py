"""DSpark's two small heads (arXiv 2607.05147): transitions between a block's positions, and how far to trust each.

A block's positions are predicted side by side and know nothing of each other's tokens. The Markov head adds to each
position's logits a bias of low rank, W2 W1[token before]: alone ("vanilla"), weighed by the position's state ("gated"),
or out of a recurrent state along the path ("rnn"). The confidence head estimates the probability that a position's
token is accepted where those before it were.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import torch
from torch import Tensor, nn

MarkovKind: TypeAlias = Literal["vanilla", "gated", "rnn"]


class MarkovHead(nn.Module):
    """The bias of logits by the token before; names of parameters are those of published checkpoints."""

    def __init__(self, kind: MarkovKind, vocabulary: int, draft_vocabulary: int, rank: int, hidden: int) -> None:
        super().__init__()
        self.kind, self.rank = kind, rank
        self.markov_w1 = nn.Embedding(vocabulary, rank)
        self.markov_w2 = nn.Linear(rank, draft_vocabulary, bias=False)
        if kind == "gated":
            self.gate_proj = nn.Linear(hidden + rank, rank)
        elif kind == "rnn":
            self.joint_proj = nn.Linear(2 * rank + hidden, 3 * rank)

    def start(self, tokens: Tensor) -> Tensor:
        """The recurrent state [n, rank] of paths that begin at tokens [n]; empty where there is none."""
        return self.markov_w1.weight.new_zeros(len(tokens), self.rank if self.kind == "rnn" else 0)

    def forward(self, before: Tensor, state: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
        """The bias [n, draft vocabulary] after embedded tokens `before` [n, rank], and the next recurrent state.

        `state` [n, hidden] is the position's, `memory` the recurrent state (see `start`).
        """
        if self.kind == "gated":
            before = torch.sigmoid(self.gate_proj(torch.cat((state, before), -1))) * before
        elif self.kind == "rnn":
            joint = self.joint_proj(torch.cat((memory, before, state), -1))
            gate, candidate, out = joint.chunk(3, -1)
            gate = torch.sigmoid(gate)
            memory = gate * memory + (1 - gate) * torch.tanh(candidate)
            before = torch.tanh(out)
        bias: Tensor = self.markov_w2(before)
        return bias, memory


class ConfidenceHead(nn.Module):
    """The probability [n] that a token is accepted, from features [n, width]."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.proj = nn.Linear(width, 1)

    def forward(self, features: Tensor) -> Tensor:
        """Features [.., width] -> shares [..], float32."""
        logits: Tensor = self.proj(features)[..., 0]
        return logits.float().sigmoid()
