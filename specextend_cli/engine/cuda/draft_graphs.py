"""A whole draft without the host: one graph reads the committed tokens, another grows the tree, however deep.

The tree of `drafters/opt_tree.py`, in device memory: the level that is expanded next, the ancestors of its nodes as
bits, and all candidates so far. The host sets where the tokens go, launches both graphs, and reads the finished tree.

The gate asks for any depth, so each up to ten has a graph: those of an EAGLE head have 45 levels of some 16 kernels
together, fewer than three forwards of an 8B model; those of a draft model, 45 of its forwards. Such a graph starts from
what the first one left, and changes none of it, so that a capture may run it as often as it likes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
from specextend_cli.engine.cuda.step import MOST_SLOTS, PLACE, WORDS, Step, StepInputs, place_of
from specextend_cli.engine.forward import WholeDrafts
from specextend_cli.engine.transfer import upload
from specextend_cli.engine.tree import DraftTree

PENDING_BUCKETS = (16, 8, 4, 2, 1)
"""Committed tokens that one graph reads, in the order of capture."""


EACH = 10
"""Depths up to which each has a graph; of deeper trees only the deepest has one, whose surplus levels nobody reads."""


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


class _Chain(NamedTuple):
    """What a graph of m committed tokens reads: its inputs, and the target's `features` [m, ..] before them.

    `numbers` [m + 2, packed inputs] are those of 1 to m tokens at position 0 and cache row 0, their tokens and the
    cache's place left out; then what each position, and each row, adds to them.
    """

    inputs: StepInputs
    features: Tensor | None
    numbers: Tensor


class DraftGraphs(WholeDrafts):
    """Captured at once, for trees of one width up to one depth. Any error of `capture`; ValueError: too many nodes.

    `scratch` has rows for the pending tokens and `MOST_SLOTS` more, which a capture overwrites.
    """

    def __init__(self, model: DraftModel, scratch: KVCache, shape: TreeShape, capture: Capture) -> None:
        self.width, self.depth = min(shape.width, model.most), max(shape.depth, 1)
        if (self.depth + 1) * self.width > MOST_SLOTS:
            raise ValueError(f"{self.depth} levels of {self.width} nodes are more than {MOST_SLOTS}")
        self.is_current = model.step.is_current
        device, width = scratch.buffer.device, self.width
        self._level = Level(width, 1 + width + self.depth * width * width, device, model.states)
        self._model = model
        self._place: Sequence[int] = ()
        self._set_place(scratch)
        chains = {m: self._chain(m) for m in PENDING_BUCKETS}
        bodies = [partial(self._begin, chains[m]) for m in PENDING_BUCKETS]
        depths = sorted({*range(min(self.depth, EACH)), self.depth - 1}, reverse=True)  # in levels after the first
        growing = [partial(self._expand, levels) for levels in depths]
        with without_collections():
            self._first = {m: (chains[m], capture(body, device)[1]) for m, body in zip(chains, bodies, strict=True)}
            self._grow = {levels: capture(body, device)[1] for levels, body in zip(depths, growing, strict=True)}

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
        grown = min(captured for captured in self._grow if captured >= levels)
        cache.reserve(bucket + (grown + 1) * self.width)
        start = cache.start
        cache.rollback()
        self._set_place(cache)
        (inputs, read, numbers), replay = self._first[bucket]
        # No upload: what varies are two numbers, and numbers are arguments of a launch.
        torch.add(numbers[n - 1], numbers[-2], alpha=position, out=inputs.packed)
        inputs.packed.add_(numbers[-1], alpha=start)
        inputs.tokens[:n] = pending
        if read is not None and features is not None:
            read[:n] = features
        replay()
        self._grow[grown]()
        size = 1 + self.width + levels * self.width**2
        return _tree(token, self._level.tree[:, :size].cpu().numpy(), shape.nodes, levels + 1)

    def _set_place(self, cache: KVCache) -> None:
        """Let all graphs find `cache`; an upload where it lies elsewhere than the last one."""
        place, held = place_of(cache), self._level.inputs.place
        if not self._model.windowed:  # every chosen working set has its positions elsewhere
            place = (*place[:-2], 0, 0)
        if self._place != place:
            self._place = place
            held.copy_(upload(place, held.device))

    def _chain(self, m: int) -> _Chain:
        states, level = self._model.states, self._level
        inputs = StepInputs(m, 1, level.count.device, states, more=len(level.begin))
        rows = [_numbers(m, n, 0, 0) for n in range(1, m + 1)]
        for moved in (_numbers(m, 1, 1, 0), _numbers(m, 1, 0, 1)):
            rows.append([after - before for before, after in zip(rows[0], moved, strict=True)])
        numbers = torch.tensor(rows, device=level.count.device)
        inputs.packed.copy_(numbers[m - 1])
        return _Chain(inputs, None if states is None else states.new_zeros(m, self._model.features), numbers)

    def _begin(self, chain: _Chain) -> None:
        """Expand the chain's last token: what `_expand` starts from."""
        model, level, inputs = self._model, self._level, chain.inputs
        if model.fuse is not None:
            assert inputs.states is not None
            assert chain.features is not None
            inputs.states.copy_(model.fuse(chain.features))
        inputs.tokens.clamp_(max=model.tokens - 1)
        inputs.place.copy_(level.inputs.place)
        level.begin.copy_(inputs.more)
        out, last = model.step(inputs), inputs.more[:1]
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


def _numbers(rows: int, n: int, position: int, start: int) -> list[int]:
    """A chain's inputs but for its n tokens and the place; nothing sees the surplus rows, and they see no chain.

    Behind them: the last token's row, and the position and the cache row of the first level.
    """
    masks = ((1 << (row + 1)) - 1 if row < n else 0 for row in range(rows))
    words = [word for mask in masks for word in (mask, *[0] * (WORDS - 1))]
    behind = (start, start + n, n, *[0] * PLACE)
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
