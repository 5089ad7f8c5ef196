"""A whole draft without the host: one graph reads the committed tokens, another grows the tree, however deep.

The tree of `drafters/opt_tree.py`, in device memory: the level that is expanded next, the ancestors of its nodes as
bits, and all candidates so far. The host sets where the tokens go, launches both graphs, and reads the finished tree.

The gate asks for any depth, so each up to ten has a graph: those of an EAGLE head have 45 levels of some 16 kernels
together, fewer than three forwards of an 8B model; those of a draft model, 45 of its forwards. Such a graph starts from
what the first one left, and changes none of it, so that a capture may run it as often as it likes.
"""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from specextend_cli.engine.cache import KVCache
from specextend_cli.engine.config import TreeShape
from specextend_cli.engine.cuda import draft_ops
from specextend_cli.engine.cuda.capture import Capture, without_collections
from specextend_cli.engine.cuda.draft_ops import Level
from specextend_cli.engine.cuda.pending_graphs import DraftModel, Pending, PendingGraphs
from specextend_cli.engine.cuda.step import MOST_SLOTS, PLACE, WORDS, StepInputs
from specextend_cli.engine.tree import DraftTree, read

EACH = 10
"""Depths up to which each has a graph; of deeper trees only the deepest has one, whose surplus levels nobody reads."""


class DraftGraphs(PendingGraphs):
    """Captured at once, for trees of one width up to one depth. Any error of `capture`; ValueError: too many nodes.

    `scratch` has rows for the pending tokens and `MOST_SLOTS` more, which a capture overwrites.
    """

    def __init__(self, model: DraftModel, scratch: KVCache, shape: TreeShape, capture: Capture) -> None:
        self.width, self.depth = min(shape.width, model.most), max(shape.depth, 1)
        if (self.depth + 1) * self.width > MOST_SLOTS:
            raise ValueError(f"{self.depth} levels of {self.width} nodes are more than {MOST_SLOTS}")
        device, width, self._buffers = scratch.device, self.width, len(scratch.buffers)
        candidates = 1 + width + self.depth * width * width
        self._level = Level(width, candidates, device, model.states, buffers=self._buffers)
        super().__init__(model, self._level.inputs.place)
        depths = sorted({*range(min(self.depth, EACH)), self.depth - 1}, reverse=True)  # in levels after the first
        growing = [partial(self._expand, levels) for levels in depths]
        with without_collections():
            self._capture(capture, scratch)
            self._grow = {levels: capture(body, device)[1] for levels, body in zip(depths, growing, strict=True)}

    def takes(self, pending: int, shape: TreeShape) -> bool:
        """See `WholeDrafts`. The depth may be smaller than the one that was captured."""
        width = min(shape.width, self._model.most)
        return width == self.width and shape.depth <= self.depth and self._reads(pending)

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

    def _inputs(self, m: int) -> StepInputs:
        more = len(self._level.begin)
        return StepInputs(m, 1, self._place.device, self._model.states, more=more, buffers=self._buffers)

    def _numbers(self, m: int, n: int, position: int, start: int) -> list[int]:
        """A chain's; nothing sees the surplus rows, and they see no chain.

        Behind it: the last token's row, and the position and the cache row of the first level.
        """
        masks = ((1 << (row + 1)) - 1 if row < n else 0 for row in range(m))
        words = [word for mask in masks for word in (mask, *[0] * (WORDS - 1))]
        behind = (start, start + n, n, *[0] * PLACE * self._buffers)
        return [*[0] * m, *range(position, position + m), *words, *behind, n - 1, position + n, start + n]

    def _begin(self, pending: Pending) -> None:
        """Expand the chain's last token: what `_expand` starts from."""
        model, level, begin = self._model, self._level, pending.inputs.more
        level.begin.copy_(begin)
        out, last = self._read(pending), begin[:1]
        draft_ops.best(out.logits, self.width, model.most, model.vocabulary, row=last, out=(level.shares, level.tokens))
        if level.state is not None:
            torch.index_select(out.states[0], 0, last, out=level.state)

    def _expand(self, levels: int) -> None:
        """Begin with the root's children; then expand so many levels, the best children of each being the next."""
        model, level = self._model, self._level
        draft_ops.advance(level, level.shares, level.tokens, level.begin)
        states = level.inputs.states
        if states is not None and level.state is not None:
            states.copy_(level.state.expand(self.width, -1))
        for _ in range(levels):
            out = model.step(level.inputs)
            shares, tokens = draft_ops.best(out.logits, self.width, model.most, model.vocabulary)
            draft_ops.advance(level, shares, tokens)
            if states is not None:
                torch.index_select(out.states[0], 0, level.above, out=states)
