"""The graphs that a whole draft begins with: each reads up to so many committed tokens, behind any cache.

The host sets where the tokens go and launches the graph; what it computes of them, a subclass says.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from specextend_cli.engine.cache import KVCache
from specextend_cli.engine.cuda.capture import Capture
from specextend_cli.engine.cuda.step import Step, StepInputs, StepOutput, place_of
from specextend_cli.engine.forward import WholeDrafts
from specextend_cli.engine.transfer import upload

PENDING_BUCKETS = (16, 8, 4, 2, 1)
"""Committed tokens that one graph reads, in the order of capture."""


class DraftModel(NamedTuple):
    """What a draft is grown with.

    `step` is its forward; `fuse` makes a head's states [n, hidden] of the target's features [n, `features`], None for a
    language model. `vocabulary` maps its tokens to the target's, None where they are the same; of the target's tokens
    it knows those below `tokens`, and proposes those below `most`.
    """

    step: Step
    tokens: int
    most: int
    vocabulary: Tensor | None = None
    fuse: Callable[[Tensor], Tensor] | None = None
    features: int = 0
    states: Tensor | None = None
    """[0, hidden], of the states' number format."""
    windowed: bool = False
    """Whether layers attend through windows, and ask for the positions of a working set."""


class Pending(NamedTuple):
    """What a graph of m committed tokens reads: its inputs, and the target's `features` [m, ..] before them.

    `numbers` [m + 2, packed inputs] are those of 1 to m tokens at position 0 and cache row 0, their tokens and the
    cache's place left out; then what each position, and each row, adds to them.
    """

    inputs: StepInputs
    features: Tensor | None
    numbers: Tensor


class PendingGraphs(WholeDrafts):
    """Graphs of `model` by the number of committed tokens. All of them find the cache by `place` (see `place_of`)."""

    def __init__(self, model: DraftModel, place: Tensor) -> None:
        self._model, self._place, self._known = model, place, tuple[int, ...]()
        self._first: dict[int, tuple[Pending, Callable[[], None]]] = {}
        self.is_current = model.step.is_current

    @abstractmethod
    def _inputs(self, m: int) -> StepInputs:
        """Of a graph of m tokens, which are the first of its rows."""

    @abstractmethod
    def _numbers(self, m: int, n: int, position: int, start: int) -> list[int]:
        """What `_inputs(m)` packs for n tokens at a position and a cache row; zeros for the tokens and the place."""

    @abstractmethod
    def _begin(self, pending: Pending) -> None:
        """The body of the graph: begins with `_read`."""

    def _capture(self, capture: Capture, scratch: KVCache) -> None:
        """All of them, over rows of `scratch`. Any error of `capture`."""
        model, device = self._model, self._place.device
        self._set_place(scratch)
        for m in PENDING_BUCKETS:
            rows = [self._numbers(m, n, 0, 0) for n in range(1, m + 1)]
            for moved in (self._numbers(m, 1, 1, 0), self._numbers(m, 1, 0, 1)):
                rows.append([after - before for before, after in zip(rows[0], moved, strict=True)])
            numbers = torch.tensor(rows, device=device)
            features = None if model.states is None else model.states.new_zeros(m, model.features)
            pending = Pending(self._inputs(m), features, numbers)
            pending.inputs.packed.copy_(numbers[m - 1])
            self._first[m] = pending, capture(partial(self._begin, pending), device)[1]

    def _reads(self, pending: int) -> bool:
        """Whether there is a graph for so many tokens, and it computes what the model does."""
        return pending <= max(PENDING_BUCKETS) and self.is_current()

    def _launch(self, tokens: Tensor, features: Tensor | None, position: int, cache: KVCache, room: int) -> None:
        """Run the smallest graph that reads `tokens` [n] and what is before them; `room`: rows for what follows."""
        n = len(tokens)
        bucket = next(m for m in reversed(PENDING_BUCKETS) if m >= n)
        cache.reserve(bucket + room)
        start = cache.start
        cache.rollback()
        self._set_place(cache)
        (inputs, read, numbers), replay = self._first[bucket]
        # No upload: what varies are two numbers, and numbers are arguments of a launch.
        torch.add(numbers[n - 1], numbers[-2], alpha=position, out=inputs.packed)
        inputs.packed.add_(numbers[-1], alpha=start)
        inputs.tokens[:n] = tokens
        if read is not None and features is not None:
            read[:n] = features
        replay()

    def _set_place(self, cache: KVCache) -> None:
        """Let all graphs find `cache`; an upload where it lies elsewhere than the last one."""
        place = place_of(cache, windowed=self._model.windowed)  # every chosen working set has its positions elsewhere
        if self._known != place:
            self._place.copy_(upload(place, self._place.device))
            self._known = place  # now: an upload that is interrupted is made again

    def _read(self, pending: Pending) -> StepOutput:
        """The model's forward of what a graph was given."""
        model, (inputs, features, _) = self._model, pending
        if model.fuse is not None and features is not None:
            assert inputs.states is not None
            inputs.states[: len(features)].copy_(model.fuse(features))
        inputs.tokens.clamp_(max=model.tokens - 1)
        inputs.place.copy_(self._place)
        return model.step(inputs)
