"""A whole draft without the host: one graph reads the committed tokens, another grows the tree, however deep.

The tree of `drafters/opt_tree.py`, in device memory: the level that is expanded next, the ancestors of its nodes as
bits, and all candidates so far. The host sets where the tokens go, launches both graphs, and reads the finished tree.

The gate asks for any depth, so each up to ten has a graph: those of an EAGLE head have 45 levels of some 16 kernels
together, fewer than three forwards of an 8B model; those of a draft model, 45 of its forwards. Such a graph starts from
what the first one left, and changes none of it, so that a capture may run it as often as it likes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from specextend_cli.engine.cache import KVCache
from specextend_cli.engine.config import TreeShape
from specextend_cli.engine.cuda import ops
from specextend_cli.engine.cuda.graphs import Capture, without_collections
from specextend_cli.engine.cuda.ops import Level
from specextend_cli.engine.cuda.step import MOST_SLOTS, PLACE, WORDS, Body, StepInputs, place_of
from specextend_cli.engine.step import WholeDrafts
from specextend_cli.engine.transfer import upload
from specextend_cli.engine.tree import DraftTree, read

EACH = 10
"""Depths up to which each has a graph; of deeper trees only the deepest has one, whose surplus levels nobody reads."""
PENDING_BUCKETS = (16, 8, 4, 2, 1)
"""Committed tokens that one graph reads, in the order of capture."""


class DraftModel(NamedTuple):
    """What a draft is grown with.

    `step` is its forward; `fuse` makes a head's states [n, hidden] of the target's features [n, `features`], None for a
    language model. `vocabulary` maps its tokens to the target's, None where they are the same; of the target's tokens
    it knows those below `tokens`, and proposes those below `most`.
    """

    step: Body
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


class DraftGraphs(WholeDrafts):
    """Captured at once, for trees of one width up to one depth. Any error of `capture`; ValueError: too many nodes.

    Those that read committed tokens are by their number; all find the cache by a place (see `place_of`).
    `scratch` has rows for the pending tokens and `MOST_SLOTS` more, which a capture overwrites.
    """

    def __init__(self, model: DraftModel, scratch: KVCache, shape: TreeShape, capture: Capture) -> None:
        self.width, self.depth = min(shape.width, model.most), max(shape.depth, 1)
        if (self.depth + 1) * self.width > MOST_SLOTS:
            raise ValueError(f"{self.depth} levels of {self.width} nodes are more than {MOST_SLOTS}")
        device, width, self._buffers = scratch.device, self.width, len(scratch.buffers)
        candidates = 1 + width + self.depth * width * width
        self._level = Level(width, candidates, device, model.states, buffers=self._buffers)
        self._model, self._place, self._known = model, self._level.inputs.place, tuple[int, ...]()
        self._first: dict[int, tuple[Pending, Callable[[], None]]] = {}
        depths = sorted({*range(min(self.depth, EACH)), self.depth - 1}, reverse=True)  # in levels after the first
        growing = [partial(self._expand, levels) for levels in depths]
        with without_collections():
            self._capture(capture, scratch)
            self._grow = {levels: capture(body, device)[1] for levels, body in zip(depths, growing, strict=True)}

    def takes(self, pending: int, shape: TreeShape) -> bool:
        """See `WholeDrafts`. The depth may be smaller than the one that was captured."""
        width = min(shape.width, self._model.most)
        is_captured = width == self.width and shape.depth <= self.depth and pending <= max(PENDING_BUCKETS)
        return is_captured and self._model.step.is_current()

    def grow(
        self, token: int, pending: Tensor, features: Tensor | None, position: int, cache: KVCache, shape: TreeShape
    ) -> DraftTree:
        """See `WholeDrafts`."""
        levels = max(min(shape.depth, shape.forwards), 1) - 1
        grown = min(captured for captured in self._grow if captured >= levels)
        self._launch(pending, features, position, cache, (grown + 1) * self.width)
        self._grow[grown]()
        size = 1 + self.width + levels * self.width**2
        return read(token, self._level.tree[:, :size], shape.nodes, forwards=levels + 1)

    def _capture(self, capture: Capture, scratch: KVCache) -> None:
        """Those that read committed tokens, over rows of `scratch`. Any error of `capture`."""
        model, device = self._model, self._place.device
        self._set_place(scratch)
        for m in PENDING_BUCKETS:
            rows = [self._numbers(m, n, 0, 0) for n in range(1, m + 1)]
            for moved in (self._numbers(m, 1, 1, 0), self._numbers(m, 1, 0, 1)):
                rows.append([after - before for before, after in zip(rows[0], moved, strict=True)])
            numbers = torch.tensor(rows, device=device)
            features = None if model.states is None else model.states.new_zeros(m, model.features)
            inputs = StepInputs(m, 1, device, model.states, more=len(self._level.begin), buffers=self._buffers)
            pending = Pending(inputs, features, numbers)
            pending.inputs.packed.copy_(numbers[m - 1])
            self._first[m] = pending, capture(partial(self._begin, pending), device)[1]

    def _numbers(self, m: int, n: int, position: int, start: int) -> list[int]:
        """What the inputs of m tokens pack for n of them, at a position and a cache row; zeros for tokens and place.

        They are a chain; nothing sees the surplus rows, and they see no chain. Behind it: the last token's row, and
        the position and the cache row of the first level.
        """
        masks = ((1 << (row + 1)) - 1 if row < n else 0 for row in range(m))
        words = [word for mask in masks for word in (mask, *[0] * (WORDS - 1))]
        behind = (start, start + n, n, *[0] * PLACE * self._buffers)
        return [*[0] * m, *range(position, position + m), *words, *behind, n - 1, position + n, start + n]

    def _launch(self, tokens: Tensor, features: Tensor | None, position: int, cache: KVCache, room: int) -> None:
        """Run the smallest graph that reads `tokens` [n] and what is before them; `room`: rows for what follows."""
        n = len(tokens)
        bucket = next(m for m in reversed(PENDING_BUCKETS) if m >= n)
        start = cache.length
        cache.make_room(start + bucket + room)
        self._set_place(cache)
        (inputs, before, numbers), replay = self._first[bucket]
        # No upload: what varies are two numbers, and numbers are arguments of a launch.
        torch.add(numbers[n - 1], numbers[-2], alpha=position, out=inputs.packed)
        inputs.packed.add_(numbers[-1], alpha=start)
        inputs.tokens[:n] = tokens
        if before is not None and features is not None:
            before[:n] = features
        replay()

    def _set_place(self, cache: KVCache) -> None:
        """Let all graphs find `cache`; an upload where it lies elsewhere than the last one."""
        place = place_of(cache, windowed=self._model.windowed)  # every chosen working set has its positions elsewhere
        if self._known != place:
            self._place.copy_(upload(place, self._place.device))
            self._known = place  # now: an upload that is interrupted is made again

    def _begin(self, pending: Pending) -> None:
        """Expand the chain's last token: what `_expand` starts from."""
        model, level, (inputs, features, _) = self._model, self._level, pending
        level.begin.copy_(inputs.more)
        if model.fuse is not None and features is not None and inputs.states is not None:
            inputs.states[: len(features)].copy_(model.fuse(features))
        inputs.tokens.clamp_(max=model.tokens - 1)
        inputs.place.copy_(self._place)
        out, last = model.step(inputs), inputs.more[:1]
        ops.best(out.logits, self.width, model.most, model.vocabulary, row=last, out=(level.shares, level.tokens))
        if level.state is not None:
            torch.index_select(out.states[0], 0, last, out=level.state)

    def _expand(self, levels: int) -> None:
        """Begin with the root's children; then expand so many levels, the best children of each being the next."""
        model, level = self._model, self._level
        ops.advance(level, level.shares, level.tokens, level.begin)
        states = level.inputs.states
        if states is not None and level.state is not None:
            states.copy_(level.state.expand(self.width, -1))
        for _ in range(levels):
            out = model.step(level.inputs)
            shares, tokens = ops.best(out.logits, self.width, model.most, model.vocabulary)
            ops.advance(level, shares, tokens)
            if states is not None:
                torch.index_select(out.states[0], 0, level.above, out=states)
