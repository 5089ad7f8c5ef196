"""Cross-model retrieval: the target's attention chooses what a drafter's attention sees (SpecExtend, section 4)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from specextend_cli.engine.config import Retrieval
from specextend_cli.engine.transfer import upload


def working_set(
    config: Retrieval,
    length: int,
    scores: Tensor | None,
    device: torch.device | str = "cpu",
    starts: Tensor | None = None,
) -> Tensor:
    """The ascending positions [m] that stay visible of the first `length` committed ones; m is `config.size`, or all.

    `scores` [>= length] is the target's attention over the committed positions; without scores, retrieval falls back
    to streaming. A chunk's score is its mean attention. With `breaks`, chunks begin at `starts` on the host (see
    `Chunks`), else every `chunk` tokens; they are taken up to the number of tokens in `top_k` chunks of full size. What
    room they leave goes to the newest tokens: then the host knows how many there are without reading from the device.
    ValueError: a policy that does not exist.
    """
    if config.policy == "full" or length <= config.size:
        return torch.arange(length, device=device)
    if config.policy == "streaming" or scores is None:
        recent = torch.arange(length - (config.size - config.sinks), length, device=device)
        return torch.cat((torch.arange(config.sinks, device=device), recent))
    if config.policy != "retrieval":
        raise ValueError(f"there is no retrieval policy {config.policy!r}")
    # Sinks and recent tokens do not count in chunks' scores: they are visible anyway. The last chunk may be short.
    end = length - config.recent
    if starts is None or not config.breaks:
        bounds = torch.arange(0, end + config.chunk, config.chunk, device=device).clamp_(max=end)
    else:
        bounds = upload([*starts[starts < end].tolist(), end], torch.device(device))
    sizes = bounds.diff()
    chunk_of = torch.arange(len(sizes), device=device).repeat_interleave(sizes, output_size=end)
    others = scores[:end].clone()
    others[: config.sinks] = 0
    # Row by row, as adding by index would sum in another order each time on a GPU.
    at = bounds[:-1, None] + torch.arange(config.chunk, device=device)
    inside = at < bounds[1:, None]
    means = torch.where(inside, others[at.clamp(max=end - 1)], 0).sum(1) / sizes
    best = means.argsort(descending=True, stable=True)
    taken = torch.zeros(len(sizes), dtype=torch.bool, device=device)
    taken[best] = sizes[best].cumsum(0) <= config.top_k * config.chunk
    seen = torch.ones(length, dtype=torch.bool, device=device)
    seen[config.sinks : end] = taken[chunk_of[config.sinks :]]
    hidden = ~seen
    newer = hidden.flip(0).cumsum(0).flip(0)  # hidden positions from each one on
    seen |= hidden & (newer <= config.size - seen.sum())
    return seen.int().topk(config.size).indices.sort().values


class Chunks:
    """Cuts a growing sequence every `chunk` tokens or, with `breaks`, where sentences end.

    A chunk ends after the first of `breaks` in its second half, else after the last one in its first half, else after
    `chunk` tokens. Chunks are cut from the start, so that a position stays in the same one as the sequence grows; only
    the last chunk changes.
    """

    def __init__(self, config: Retrieval) -> None:
        self._longest, self._breaks = config.chunk, config.breaks
        self._starts = [0]
        self._length = self._break = 0

    def add(self, tokens: Sequence[int]) -> None:
        """The next tokens of the sequence."""
        if not self._breaks:
            return
        for at, token in enumerate(tokens, self._length + 1):
            if token in self._breaks:
                self._break = at
            size = at - self._starts[-1]
            if size == self._longest or (2 * size >= self._longest and self._break == at):
                self._starts.append(self._break if self._break > self._starts[-1] else at)
        self._length += len(tokens)

    def starts(self, length: int) -> Tensor:
        """Ascending first positions [c] of the chunks of the first `length` tokens, in the host's memory."""
        if not self._breaks:
            return torch.arange(0, length, self._longest)
        starts = torch.tensor(self._starts)
        return starts[starts < length]


class Schedule:
    """When a working set is chosen again: every `every` drafted steps (0: never), or later if it is not affordable."""

    def __init__(self, every: int) -> None:
        self.every = every
        self._steps = 0

    def due(self, affordable: Callable[[], bool] = lambda: True) -> bool:
        """Count one drafted step; whether to choose after it. `affordable` is asked only when it decides."""
        self._steps += 1
        due = 0 < self.every <= self._steps and affordable()
        if due:
            self._steps = 0
        return due
