"""A whole draft without the host: one graph reads the committed tokens, another grows the tree by a level.

The tree of `drafters/opt_tree.py`, in device memory: the level that is expanded next, the ancestors of its nodes as
bits, and all candidates so far. The second graph expands a level and chooses the next; it is launched once a level, and
reads on the device which level it is. The host sets where the cache is, launches, and reads the finished tree.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from specextend_cli.engine.cache import KVCache
from specextend_cli.engine.config import TreeShape
from specextend_cli.engine.cuda import draft_ops
from specextend_cli.engine.cuda.capture import Capture, without_collections
from specextend_cli.engine.cuda.draft_ops import Level
from specextend_cli.engine.cuda.step import MOST_SLOTS, WORDS, Step, StepInputs, place_of
from specextend_cli.engine.forward import WholeDrafts
from specextend_cli.engine.tree import DraftTree

PENDING_BUCKETS = (16, 8, 4, 2, 1)
"""Committed tokens that one graph reads, in the order of capture."""


class DraftModel(NamedTuple):
    """What a draft is grown with.

    `step` is its forward; `fuse` makes a head's states [n, hidden] of the target's features [n, `features`], None for a
    language model. `vocabulary` maps its tokens to the target's, None where they are the same; of the target's tokens
    it knows those below `tokens`, and proposes those below `most`.
    """

    step: Step
    scratch: KVCache
    tokens: int
    most: int
    vocabulary: Tensor | None = None
    fuse: Callable[[Tensor], Tensor] | None = None
    features: int = 0
    states: Tensor | None = None
    """[0, hidden], of the states' number format."""


class DraftGraphs(WholeDrafts):
    """Captured at once, for trees of one width up to one depth. Any error of `capture`; ValueError: too many nodes."""

    def __init__(self, model: DraftModel, shape: TreeShape, capture: Capture) -> None:
        self.width, self.depth = min(shape.width, model.most), max(shape.depth, 1)
        if (self.depth + 1) * self.width > MOST_SLOTS:
            raise ValueError(f"{self.depth} levels of {self.width} nodes are more than {MOST_SLOTS}")
        self.is_current = model.step.is_current
        device, width = model.scratch.buffer.device, self.width
        self._level = Level(width, 1 + width + self.depth * width * width, device, model.states)
        self._model = model
        self._first: dict[int, tuple[StepInputs, Tensor, Callable[[], None]]] = {}
        first = {m: self._inputs(m) for m in PENDING_BUCKETS}
        bodies = [partial(self._begin, *first[m]) for m in PENDING_BUCKETS]
        with without_collections():
            for m, body in zip(PENDING_BUCKETS, bodies, strict=True):
                self._first[m] = (*first[m], capture(body, device)[1])
            _, self._grow = capture(self._expand, device)

    def takes(self, pending: int, shape: TreeShape) -> bool:
        """See `WholeDrafts`. The depth may be smaller than the one that was captured."""
        width = min(shape.width, self._model.most)
        return (
            pending <= max(PENDING_BUCKETS) and width == self.width and shape.depth <= self.depth and self.is_current()
        )

    def grow(
        self, token: int, pending: Tensor, features: Tensor | None, position: int, cache: KVCache, shape: TreeShape
    ) -> DraftTree:
        """See `WholeDrafts`."""
        n = len(pending)
        bucket = next(m for m in reversed(PENDING_BUCKETS) if m >= n)
        levels = max(min(shape.depth, shape.forwards), 1) - 1
        cache.reserve(bucket + (levels + 1) * self.width)
        start = cache.start
        cache.rollback()
        place = place_of(cache)
        inputs, read, replay = self._first[bucket]
        inputs.set(_chain(bucket, n, position, start, place))
        inputs.tokens[:n] = pending
        if features is not None:
            read[:n] = features
        self._level.inputs.place.copy_(inputs.place)
        replay()
        for _ in range(levels):
            self._grow()
        size = 1 + self.width + levels * self.width**2
        return _tree(token, self._level.tree[:, :size].cpu().numpy(), shape.nodes, levels + 1)

    def _inputs(self, m: int) -> tuple[StepInputs, Tensor]:
        """Those of a chain of m tokens, and the target's features before them."""
        model, device = self._model, self._level.count.device
        inputs = StepInputs(m, 1, device, model.states, more=3)
        inputs.set(_chain(m, m, 0, 0, place_of(model.scratch)))
        self._level.inputs.place.copy_(inputs.place)
        return inputs, torch.zeros(m, model.features, dtype=model.scratch.buffer.dtype, device=device)

    def _begin(self, inputs: StepInputs, features: Tensor) -> None:
        """Expand the chain's last token; the tree's first level."""
        model, level = self._model, self._level
        if model.fuse is not None:
            assert inputs.states is not None
            inputs.states.copy_(model.fuse(features))
        inputs.tokens.clamp_(max=model.tokens - 1)
        out, last = model.step(inputs), inputs.more[:1]
        shares, tokens = draft_ops.best(out.logits, self.width, model.most, model.vocabulary, row=last)
        draft_ops.advance(level, shares, tokens, inputs.more)
        if level.inputs.states is not None:
            level.inputs.states.copy_(out.states[0].index_select(0, last).expand(self.width, -1))

    def _expand(self) -> None:
        """Run the level's nodes, add their children, and make the best of these the next level."""
        model, level = self._model, self._level
        out = model.step(level.inputs)
        shares, tokens = draft_ops.best(out.logits, self.width, model.most, model.vocabulary)
        draft_ops.advance(level, shares, tokens)
        if level.inputs.states is not None:
            torch.index_select(out.states[0], 0, level.above, out=level.inputs.states)


def _chain(rows: int, n: int, position: int, start: int, place: tuple[int, ...]) -> list[int]:
    """A chain's inputs but for its n tokens; nothing sees the surplus rows, and they see nothing of the chain.

    Behind them: the last token's row, and the position and the cache row of the first level.
    """
    masks = ((1 << (row + 1)) - 1 if row < n else 0 for row in range(rows))
    words = [word for mask in masks for word in (mask, *[0] * (WORDS - 1))]
    behind = (start, start + n, n, *place)
    return [*[0] * rows, *range(position, position + rows), *words, *behind, n - 1, position + n, start + n]


def _tree(token: int, rows: npt.NDArray[np.int64], most: int, forwards: int) -> DraftTree:
    """The best nodes of `rows` (tokens, parents, bits of scores), the first of which stands for the root."""
    tokens, parents, bits = rows
    scores = bits.astype(np.int32).view(np.float32)
    tokens[0], scores[0] = token, 1.0
    if len(scores) > most and np.isfinite(scores).all():
        # As `DraftTree.best`: the sort is stable, so a parent stays ahead of a child with an equal score.
        chosen = np.sort(np.argsort(-scores[1:], kind="stable")[: most - 1] + 1)
        chosen = np.concatenate(([0], chosen))
        places = np.zeros(len(scores), np.int64)
        places[chosen] = np.arange(len(chosen))
        tokens, parents, scores = tokens[chosen], places[parents[chosen]], scores[chosen]
    return DraftTree(tokens.tolist(), parents.tolist(), scores.tolist(), forwards=forwards)
