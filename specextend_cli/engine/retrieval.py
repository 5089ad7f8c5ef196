"""Cross-model retrieval: the target's attention chooses what a drafter's attention may see (SpecExtend, section 4)."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from specextend_cli.engine.config import Retrieval


def working_set(
    config: Retrieval,
    length: int,
    scores: Tensor | None,
    device: torch.device | str = "cpu",
    starts: Tensor | None = None,
) -> Tensor:
    """Ascending positions [m] of the first `length` committed ones that stay visible; m <= config.size for short sets.

    `scores` [>= length] is the target's attention over the committed positions; without scores, retrieval falls back
    to streaming. A chunk's score is its mean attention. Chunks begin at `starts` (see `Chunks`; None: every `chunk`
    tokens); as many are taken as `top_k` of full size would have tokens.
    """
    if config.policy == "full" or length <= config.size:
        return torch.arange(length, device=device)
    if config.policy == "streaming" or scores is None:
        recent = torch.arange(length - (config.size - config.sinks), length, device=device)
        return torch.cat((torch.arange(config.sinks, device=device), recent))
    # Only what sinks and recent tokens leave out competes: their own attention would win them a place they have
    # already. The last chunk may be a short one.
    end = length - config.recent
    starts = torch.arange(0, end, config.chunk, device=device) if starts is None else starts[starts < end]
    sizes = torch.diff(starts, append=torch.tensor([end], device=device))
    chunk_of = torch.arange(len(starts), device=device).repeat_interleave(sizes, output_size=end)
    rivals = scores[:end].clone()
    rivals[: config.sinks] = 0
    means = rivals.new_zeros(len(starts)).index_add_(0, chunk_of, rivals) / sizes
    best = means.argsort(descending=True, stable=True)
    taken = torch.zeros(len(starts), dtype=torch.bool, device=device)
    taken[best] = sizes[best].cumsum(0) <= config.top_k * config.chunk
    seen = torch.ones(length, dtype=torch.bool, device=device)
    seen[config.sinks : end] = taken[chunk_of[config.sinks :]]
    return seen.nonzero().squeeze(-1)


def spans(positions: Tensor) -> tuple[tuple[int, int], ...]:
    """Half-open ranges of ascending positions."""
    if not len(positions):
        return ()
    gaps = positions[1:] - positions[:-1] > 1
    starts = torch.cat((positions[:1], positions[1:][gaps]))
    ends = torch.cat((positions[:-1][gaps], positions[-1:])) + 1
    return tuple(zip(starts.tolist(), ends.tolist(), strict=True))


@dataclass
class Trigger:
    """When to choose anew: every n steps, or by need, when drafts begin to fail.

    By need means that the accepted length, averaged over the last few steps, fell below `drop` of its running mean:
    the text has moved on to another part of the document. Never twice within `rest` steps.
    """

    config: Retrieval
    drop: float = 0.75
    rest: int = 3
    _since: int = field(default=0, init=False)
    _steps: int = field(default=0, init=False)
    _mean: float = field(default=0.0, init=False)
    _recent: float = field(default=0.0, init=False)

    def due(self, accepted: int, *, able: bool = True) -> bool:
        """Count one verification step of `accepted` emitted tokens; whether the set should be chosen anew now.

        When it should, but nobody is `able` to, it stays due.
        """
        self._steps += 1
        self._since += 1
        self._mean += (accepted - self._mean) / self._steps
        self._recent += (accepted - self._recent) / min(self._steps, 4)
        by_clock = self.config.every > 0 and self._since >= self.config.every
        by_need = self.config.adaptive and self._since >= self.rest and self._recent < self.drop * self._mean
        if able and (by_clock or by_need):
            self._since = 0
            return True
        return False

    def could_be_due(self) -> bool:
        """Whether `due` may say yes after the next step, so that its queries must be recorded."""
        soon = self._since + 1
        return (0 < self.config.every <= soon) or (self.config.adaptive and soon >= self.rest)
