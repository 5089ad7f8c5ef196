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

import torch
from torch import Tensor

from specextend_cli.engine.cache import KVCache
from specextend_cli.engine.config import TreeShape
from specextend_cli.engine.cuda import ops
from specextend_cli.engine.cuda.body import MOST_SLOTS, WORDS, Body, GraphInputs, addresses_of
from specextend_cli.engine.cuda.capture import Capture, capturing
from specextend_cli.engine.cuda.ops import Level
from specextend_cli.engine.drafters.model import ModelDrafter
from specextend_cli.engine.head import EagleHead
from specextend_cli.engine.step import WholeDrafts
from specextend_cli.engine.tree import DraftTree, read

PENDING_BUCKETS = (16, 8, 4, 2, 1)
"""Committed tokens that one graph reads, in the order of capture."""


class DraftGraphs(WholeDrafts):
    """Captured at once, for trees of one width up to one depth, of a drafter whose model runs by graphs.

    Those that read committed tokens are by their number, and are told where the cache lies (see `addresses_of`). Any
    error of `capture`; ValueError: too many nodes.
    """

    def __init__(self, drafter: ModelDrafter, body: Body, shape: TreeShape, capture: Capture) -> None:
        model, self._body, self._fuse, features = drafter.model, body, None, 0
        if isinstance(model, EagleHead):
            known, self._most = model.embedding.num_embeddings, len(model.vocabulary)
            self._fuse, features = model.fuse, model.config.fused * model.config.target_hidden
        else:
            known, self._most = model.vocabulary, min(model.vocabulary, drafter.target.lm.vocabulary)
        self._last_known, self._vocabulary = known - 1, drafter.vocabulary  # of the target's tokens; as those
        self.width, self.depth = min(shape.width, self._most), max(shape.depth, 1)
        if (self.depth + 1) * self.width > MOST_SLOTS:
            raise ValueError(f"{self.depth} levels of {self.width} nodes are more than {MOST_SLOTS}")
        scratch = model.new_cache(max(PENDING_BUCKETS) + MOST_SLOTS)  # which every capture overwrites
        device, width, buffers = scratch.device, self.width, len(scratch.buffers)
        self._level = Level(width, 1 + width + self.depth * width * width, device, body.states, buffers=buffers)
        self._first: dict[int, tuple[GraphInputs, Tensor | None, Callable[[], None]]] = {}
        with capturing():
            for m in PENDING_BUCKETS:
                before = None if body.states is None else body.states.new_zeros(m, features)
                inputs = GraphInputs(m, 1, device, body.states, more=len(self._level.begin), buffers=buffers)
                inputs.set(self._numbers(m, m, 0, 0, scratch))
                self._first[m] = inputs, before, capture(partial(self._begin, inputs, before), device)[1]
            self._grow = {  # by levels after the first
                levels: capture(partial(self._expand, levels), device)[1] for levels in reversed(range(self.depth))
            }

    def takes(self, shape: TreeShape) -> bool:
        """See `WholeDrafts`. The depth may be smaller than the one that was captured."""
        width = min(shape.width, self._most)
        return width == self.width and shape.depth <= self.depth and self._body.is_current()

    def grow(
        self, token: int, pending: Tensor, features: Tensor | None, position: int, cache: KVCache, shape: TreeShape
    ) -> DraftTree:
        """See `WholeDrafts`."""
        levels = max(min(shape.depth, shape.forwards), 1) - 1
        self._launch(pending, features, position, cache, (levels + 1) * self.width)
        self._grow[levels]()
        size = 1 + self.width + levels * self.width**2
        return read(token, self._level.tree[:, :size], shape.nodes, forwards=levels + 1)

    def _numbers(self, m: int, n: int, position: int, start: int, cache: KVCache) -> list[int]:
        """What the inputs of m tokens pack behind them for n of them, at a position and a row of a cache.

        They are a chain; nothing sees the surplus rows, and they see no chain. Behind it: the last token's row, and
        the position and the cache row of the first level.
        """
        masks = ((1 << (row + 1)) - 1 if row < n else 0 for row in range(m))
        words = [word for mask in masks for word in (mask, *[0] * (WORDS - 1))]
        at = addresses_of(cache)
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
        level = self._level
        level.begin.copy_(inputs.more)
        level.inputs.addresses.copy_(inputs.addresses)
        if self._fuse is not None and features is not None and inputs.states is not None:
            inputs.states[: len(features)].copy_(self._fuse(features))
        inputs.tokens.clamp_(max=self._last_known)
        out, last = self._body(inputs), inputs.more[:1]
        ops.best(out.logits, self.width, self._most, self._vocabulary, row=last, out=(level.shares, level.tokens))
        if level.state is not None:
            torch.index_select(out.states[0], 0, last, out=level.state)

    def _expand(self, levels: int) -> None:
        """Begin with the root's children; then expand so many levels, the best children of each being the next."""
        level = self._level
        ops.advance(level, level.shares, level.tokens, level.begin)
        states = level.inputs.states
        if states is not None and level.state is not None:
            states.copy_(level.state.expand(self.width, -1))
        for _ in range(levels):
            out = self._body(level.inputs)
            shares, tokens = ops.best(out.logits, self.width, self._most, self._vocabulary)
            ops.advance(level, shares, tokens)
            if states is not None:
                torch.index_select(out.states[0], 0, level.above, out=states)
