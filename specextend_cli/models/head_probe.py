"""Which reading of a head's configuration is the trainer's: that by which it drafts what the target says.

Programs give two meanings to the numbers of layers, to `norm_output`, and to keys that are left out. The readings draft
along a short text, several tokens deep, because what a head is fed shows from the second token on.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from specextend_cli.engine.attention_backends import backend_for
from specextend_cli.engine.head import EagleHead
from specextend_cli.engine.head_config import HeadConfig
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.engine.step import Step

DEPTH = 3  # tokens that are drafted at every position
MARGIN = 0.02  # of agreement by which another reading has to be better than the first: chance alone makes half of it
LEAST = 0.1
"""The share of agreement that any head has with its own target: 24% for the small one that is shipped."""


def probe(head: EagleHead, readings: Sequence[HeadConfig], target: LanguageModel, tokens: Tensor) -> float:
    """Read `head` in that of the `readings` which agrees best with the target on `tokens` [n]; the agreement.

    The first is kept unless another is better by `MARGIN`. Nothing here is random.
    """
    shares = agreements(head, readings, target, tokens)
    best = max(range(len(readings)), key=lambda index: (shares[index], -index))
    best = best if shares[best] >= shares[0] + MARGIN else 0
    head.read_as(readings[best])
    return shares[best]


@torch.inference_mode()
def agreements(
    head: EagleHead, readings: Sequence[HeadConfig], target: LanguageModel, tokens: Tensor
) -> tuple[float, ...]:
    """For each reading, how often the most likely token of a draft is the target's, as a share from 0 to 1.

    Drafts are fed the text's tokens, so a wrong one does not spoil those behind it.
    """
    layers = sorted({layer for reading in readings for layer in reading.feature_layers})
    positions = torch.arange(len(tokens), device=tokens.device)
    out = target.forward(tokens, positions, target.new_cache(len(tokens)), feature_layers=layers)
    assert out.features is not None
    states = dict(zip(layers, out.features.split(head.config.target_hidden, -1), strict=True))
    chosen, stock, shares = out.logits.argmax(-1), head.config, []
    for reading in readings:
        head.read_as(reading)
        features = torch.cat([states[layer] for layer in reading.feature_layers], -1)
        shares.append(_agreement(head, features.to(head.fc.weight.dtype), tokens, chosen))
    head.read_as(stock)
    return tuple(shares)


def _agreement(head: EagleHead, features: Tensor, tokens: Tensor, chosen: Tensor) -> float:
    """For the target's states [n, ..] and choices [n] of the next token."""
    rows = len(tokens) - 1
    device, cache = tokens.device, head.new_cache(DEPTH * rows)
    backend, states = backend_for(device, "reference"), head.fuse(features[:rows])
    mask = torch.ones(rows, rows, dtype=torch.bool, device=device).tril()
    agreed = []
    for depth in range(DEPTH):
        # Row i has read the text up to token i + 1 + depth, the last `depth` of them behind its own states.
        read = slice(1 + depth, 1 + depth + rows)
        positions = torch.arange(depth, depth + rows, device=device)
        out = head.run(Step(tokens[read], positions, cache, mask, backend=backend, states=states[:rows]))
        assert out.state is not None
        agreed.append(head.vocabulary[out.logits.argmax(-1)] == chosen[read])
        states, rows = out.state, rows - 1
        mask = torch.cat((mask[:rows], torch.eye(rows, dtype=torch.bool, device=device)), 1)
    return sum(float(level.float().mean()) for level in agreed) / DEPTH
