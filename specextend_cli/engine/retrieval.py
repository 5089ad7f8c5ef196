"""Cross-model retrieval: the target's attention chooses what a drafter's attention sees (SpecExtend, section 4)."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import pad

from specextend_cli.engine.config import Retrieval


def working_set(config: Retrieval, length: int, scores: Tensor | None, device: torch.device | str = "cpu") -> Tensor:
    """The ascending positions [m] that stay visible of the first `length` committed ones; m is `config.size`, or all.

    `scores` [>= length] is the target's attention over the committed positions; without scores, retrieval falls back
    to streaming. A chunk's score is its mean attention. Chunks are taken up to the number of tokens in `top_k` of full
    size. What room they leave goes to the newest tokens: then the host knows how many there are without reading from
    the device.
    """
    if config.policy == "full" or length <= config.size:
        return torch.arange(length, device=device)
    if config.policy == "streaming" or scores is None:
        recent = torch.arange(length - (config.size - config.sinks), length, device=device)
        return torch.cat((torch.arange(config.sinks, device=device), recent))
    # Sinks and recent tokens do not count in chunks' scores: they are visible anyway. The last chunk may be short.
    end = length - config.recent
    spare = -end % config.chunk
    others = pad(scores[config.sinks : end], (config.sinks, spare)).view(-1, config.chunk)
    sizes = torch.full((len(others),), config.chunk, device=device)
    sizes[-1] -= spare
    means = others.sum(1) / sizes
    best = means.argsort(descending=True, stable=True)
    taken = torch.zeros(len(sizes), dtype=torch.bool, device=device)
    taken[best] = sizes[best].cumsum(0) <= config.top_k * config.chunk
    seen = torch.ones(length, dtype=torch.bool, device=device)
    seen[config.sinks : end] = taken.repeat_interleave(config.chunk)[config.sinks : end]
    hidden = ~seen
    newer = hidden.flip(0).cumsum(0).flip(0)  # hidden positions from each one on
    seen |= hidden & (newer <= config.size - seen.sum())
    return seen.int().topk(config.size).indices.sort().values
