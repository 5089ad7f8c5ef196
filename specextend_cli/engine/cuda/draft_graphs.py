"""A whole draft without the host: one graph reads the committed tokens, another grows the tree, however deep.

The tree of `drafters/opt_tree.py`, in device memory: the level that is expanded next, the ancestors of its nodes as
bits, and all candidates so far. The host sets where the tokens go, launches both graphs, and reads the finished tree.

The gate asks for any depth, so each has a graph: those up to eight of an EAGLE head have 28 levels of some 16 kernels
together, fewer than two forwards of an 8B model; those of a draft model, 28 of its forwards. Such a graph starts from
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
from specextend_cli.engine.cuda.body import MOST_SLOTS, WORDS, Body, GraphInputs, addresses_of
from specextend_cli.engine.cuda.capture import Capture, capturing
from specextend_cli.engine.cuda.ops import Level
from specextend_cli.engine.step import WholeDrafts
from specextend_cli.engine.tree import DraftTree, read

PENDING_BUCKETS = (16, 8, 4, 2, 1)
"""Committed tokens that one graph reads, in the order of capture."""


class DraftModel(NamedTuple):
    """What a draft is grown with.

    `body` is its forward; `fuse` makes a head's states [n, hidden] of the target's features [n, `features`], None for a
    language model. `vocabulary` maps its tokens to the target's, None where they are the same; of the target's tokens
    it knows those below `tokens`, and proposes those below `most`.
    """

    body: Body
    tokens: int
    most: int
    vocabulary: Tensor | None = None
    fuse: Callable[[Tensor], Tensor] | None = None
    features: int = 0
    states: Tensor | None = None
    """[0, hidden], of the states' number format."""
    windowed: bool = False
    """Whether layers attend through windows, and ask for the positions of a working set."""


class DraftGraphs(WholeDrafts):
    """Captured at once, for trees of one width up to one depth. Any error of `capture`; ValueError: too many nodes.

    Those that read committed tokens are by their number, and are told where the cache lies (see `addresses_of`).
    `scratch` has rows for the pending tokens and `MOST_SLOTS` more, which a capture overwrites.
    """

    def __init__(self, model: DraftModel, scratch: KVCache, shape: TreeShape, capture: Capture) -> None:
        self.width, self.depth = min(shape.width, model.most), max(shape.depth, 1)
        if (self.depth + 1) * self.width > MOST_SLOTS:
            raise ValueError(f"{self.depth} levels of {self.width} nodes are more than {MOST_SLOTS}")
        device, width, self._buffers = scratch.device, self.width, len(scratch.buffers)
        candidates = 1 + width + self.depth * width * width
        self._level = Level(width, candidates, device, model.states, buffers=self._buffers)
        self._model = model
        self._first: dict[int, tuple[GraphInputs, Tensor | None, Callable[[], None]]] = {}
        growing = {levels: partial(self._expand, levels) for levels in reversed(range(self.depth))}  # after the first
        with capturing():
            self._capture(capture, scratch)
            self._grow = {levels: capture(body, device)[1] for levels, body in growing.items()}

    def takes(self, pending: int, shape: TreeShape) -> bool:
        """See `WholeDrafts`. The depth may be smaller than the one that was captured."""
        width = min(shape.width, self._model.most)
        return width == self.width and shape.depth <= self.depth and self._model.body.is_current()

    def grow(
        self, token: int, pending: Tensor, features: Tensor | None, position: int, cache: KVCache, shape: TreeShape
    ) -> DraftTree:
        """See `WholeDrafts`."""
        levels = max(min(shape.depth, shape.forwards), 1) - 1
        self._launch(pending, features, position, cache, (levels + 1) * self.width)
        self._grow[levels]()
        size = 1 + self.width + levels * self.width**2
        return read(token, self._level.tree[:, :size], shape.nodes, forwards=levels + 1)

    def _capture(self, capture: Capture, scratch: KVCache) -> None:
        """Those that read committed tokens, over rows of `scratch`. Any error of `capture`."""
        model, device = self._model, scratch.device
        for m in PENDING_BUCKETS:
            features = None if model.states is None else model.states.new_zeros(m, model.features)
            inputs = GraphInputs(m, 1, device, model.states, more=len(self._level.begin), buffers=self._buffers)
            inputs.set(self._numbers(m, m, 0, 0, scratch))
            self._first[m] = inputs, features, capture(partial(self._begin, inputs, features), device)[1]

    def _numbers(self, m: int, n: int, position: int, start: int, cache: KVCache) -> list[int]:
        """What the inputs of m tokens pack behind them for n of them, at a position and a row of a cache.

        They are a chain; nothing sees the surplus rows, and they see no chain. Behind it: the last token's row, and
        the position and the cache row of the first level.
        """
        masks = ((1 << (row + 1)) - 1 if row < n else 0 for row in range(m))
        words = [word for mask in masks for word in (mask, *[0] * (WORDS - 1))]
        # Every chosen working set has its positions elsewhere.
        at = addresses_of(cache, windowed=self._model.windowed)
        return [*range(position, position + m), *words, start, start + n, n, *at, n - 1, position + n, start + n]

    def _launch(self, tokens: Tensor, features: Tensor | None, position: int, cache: KVCache, room: int) -> None:
        """Read `tokens` [n] and what is before them, by the smallest graph; `room`: rows for what follows.

        More than any graph reads, as after plain steps or a prompt, are read in pieces: the last one's output stays.
        """
        n, most = len(tokens), max(PENDING_BUCKETS)
        start = cache.length
        cache.make_room(start + n + most + room)
        for at in range(0, n, most):
            size = min(n - at, most)
            bucket = next(m for m in reversed(PENDING_BUCKETS) if m >= size)
            inputs, before, replay = self._first[bucket]
            inputs.set(self._numbers(bucket, size, position + at, start + at, cache))
            inputs.tokens[:size] = tokens[at : at + size]
            if before is not None and features is not None:
                before[:size] = features[at : at + size]
            replay()

    def _begin(self, inputs: GraphInputs, features: Tensor | None) -> None:
        """Expand the last token of a chain, with the target's `features` [m, ..] before it: `_expand` starts there."""
        model, level = self._model, self._level
        level.begin.copy_(inputs.more)
        level.inputs.addresses.copy_(inputs.addresses)
        if model.fuse is not None and features is not None and inputs.states is not None:
            inputs.states[: len(features)].copy_(model.fuse(features))
        inputs.tokens.clamp_(max=model.tokens - 1)
        out, last = model.body(inputs), inputs.more[:1]
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
            out = model.body(level.inputs)
            shares, tokens = ops.best(out.logits, self.width, model.most, model.vocabulary)
            ops.advance(level, shares, tokens)
            if states is not None:
                torch.index_select(out.states[0], 0, level.above, out=states)
