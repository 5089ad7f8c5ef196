"""A whole draft without the host: one graph reads the committed tokens, another grows the tree by a level.

The tree of `drafters/opt_tree.py`, in device memory: the level that is expanded next, the ancestors of its nodes as bits,
and all candidates so far. The second graph expands a level and chooses the next; it is launched once a level, and reads
on the device which level it is. The host sets where the cache is, launches, and reads the finished tree.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from specextend_cli.engine.attention.triton_tree import WORD
from specextend_cli.engine.cache import KVCache
from specextend_cli.engine.config import TreeShape
from specextend_cli.engine.cuda.capture import Capture, without_collections
from specextend_cli.engine.cuda.graphs import CapturedStep
from specextend_cli.engine.cuda.place import place_of
from specextend_cli.engine.cuda.step import MOST_SLOTS, WORDS, StepInputs
from specextend_cli.engine.forward import WholeDrafts
from specextend_cli.engine.tree import DraftTree

PENDING = (16, 8, 4, 2, 1)
"""Committed tokens that one graph reads, in the order of capture."""


class DraftModel(NamedTuple):
    """What a draft is grown with.

    `step` is its forward; `fuse` makes a head's states [n, hidden] of the target's features [n, `features`], None for a
    language model. `vocabulary` maps its tokens to the target's, None where they are the same; of the target's tokens it
    knows those below `tokens`, and proposes those below `most`.
    """

    step: CapturedStep
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
        self.width, self.depth = min(shape.width, model.most), shape.depth
        if (self.depth + 1) * self.width > MOST_SLOTS:
            raise ValueError(f"{self.depth} levels of {self.width} nodes are more than {MOST_SLOTS}")
        self.is_current = model.step.is_current
        device, width = model.scratch.buffer.device, self.width
        self._level = StepInputs(width, 1, device, model.states)
        self._scores = torch.zeros(width, device=device)
        self._nodes = torch.zeros(width, dtype=torch.long, device=device)
        self._ancestors = torch.zeros(width, WORDS, dtype=torch.long, device=device)
        self._count = torch.zeros(1, dtype=torch.long, device=device)
        candidates = 1 + width + self.depth * width * width
        self._tree = torch.zeros(3, candidates, dtype=torch.long, device=device)  # tokens, parents, bits of scores
        self._row = torch.arange(width, device=device)
        self._children = torch.arange(width * width, device=device)
        self._words = torch.arange(WORDS, device=device)
        self._model = model
        self._first: dict[int, tuple[StepInputs, Tensor, Callable[[], None]]] = {}
        with without_collections():
            for m in PENDING:
                self._first[m] = self._capture_first(m, capture)
            _, self._grow = capture(self._expand, device)

    def takes(self, pending: int, shape: TreeShape) -> bool:
        """See `WholeDrafts`. The depth may be smaller than the one that was captured."""
        width = min(shape.width, self._model.most)
        return pending <= max(PENDING) and width == self.width and shape.depth <= self.depth and self.is_current()

    def grow(
        self, token: int, pending: Tensor, features: Tensor | None, position: int, cache: KVCache, shape: TreeShape
    ) -> DraftTree:
        """See `WholeDrafts`."""
        n = len(pending)
        bucket = next(m for m in reversed(PENDING) if m >= n)
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
        self._level.place.copy_(inputs.place)
        replay()
        for _ in range(levels):
            self._grow()
        size = 1 + self.width + levels * self.width**2
        tokens, parents, bits = self._tree[:, :size].cpu()
        scores: list[float] = bits.int().view(torch.float32).tolist()
        return DraftTree([token, *tokens[1:].tolist()], parents.tolist(), [1.0, *scores[1:]], forwards=levels + 1)

    def _capture_first(self, m: int, capture: Capture) -> tuple[StepInputs, Tensor, Callable[[], None]]:
        model, device = self._model, self._count.device
        inputs = StepInputs(m, 1, device, model.states, more=3)
        read = torch.zeros(m, model.features, dtype=model.scratch.buffer.dtype, device=device)
        place = place_of(model.scratch)
        inputs.set(_chain(m, m, 0, 0, place))
        self._level.place.copy_(inputs.place)

        def body() -> None:
            """Expand the chain's last token; the tree's first level."""
            if model.fuse is not None:
                assert inputs.states is not None
                inputs.states.copy_(model.fuse(read))
            inputs.tokens.clamp_(max=model.tokens - 1)
            out = model.step(inputs)
            last, position, start = inputs.more.split(1)
            shares, ids = self._best(out.logits.index_select(0, last))
            level, width = self._level, self.width
            level.tokens.copy_(ids[0])
            level.positions.copy_(position.expand(width))
            level.starts.copy_(start)
            level.lengths.copy_(torch.cat((start + width, torch.full_like(start, width))))
            if level.states is not None:
                level.states.copy_(out.states[0].index_select(0, last).expand(width, -1))
            self._scores.copy_(shares[0])
            self._nodes.copy_(self._row + 1)
            self._ancestors.zero_()
            self._count.fill_(1 + width)
            self._tree[0, 1 : 1 + width] = ids[0]
            self._tree[1, 1 : 1 + width] = 0
            self._tree[2, 1 : 1 + width] = _bits(shares[0])

        _, replay = capture(body, device)
        return inputs, read, replay

    def _expand(self) -> None:
        """Run the level's nodes, add their children, and make the best of these the next level."""
        level, width = self._level, self.width
        slots = level.lengths[1:] - width + self._row
        own = torch.where(self._words == (slots // WORD)[:, None], (1 << slots % WORD)[:, None], 0)
        assert level.words is not None
        torch.bitwise_or(self._ancestors, own, out=level.words)
        out = self._model.step(level)
        shares, ids = self._best(out.logits)
        children, tokens = (self._scores[:, None] * shares).flatten(), ids.flatten()
        at = self._count + self._children
        parents = self._nodes.repeat_interleave(width, output_size=len(at))
        self._tree.index_copy_(1, at, torch.stack((tokens, parents, _bits(children))))
        best, chosen = children.topk(width)
        above = chosen // width
        level.tokens.copy_(tokens[chosen])
        self._scores.copy_(best)
        self._nodes.copy_(self._count + chosen)
        self._ancestors.copy_(level.words[above])
        if level.states is not None:
            level.states.copy_(out.states[0][above])
        level.positions.add_(1)
        level.starts.add_(width)
        level.lengths.add_(width)
        self._count.add_(width * width)

    def _best(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        """The best probabilities of each row of logits, and their tokens in the target's vocabulary."""
        best, ids = logits[:, : self._model.most].float().log_softmax(-1).topk(self.width)
        return best.exp(), ids if self._model.vocabulary is None else self._model.vocabulary[ids]


def _bits(scores: Tensor) -> Tensor:
    """float32 as integers that a tree of integers holds."""
    return scores.view(torch.int32).long()


def _chain(rows: int, n: int, position: int, start: int, place: tuple[int, ...]) -> list[int]:
    """A chain's inputs but for its n tokens. Surplus rows see what they like: nobody sees them.

    Behind them: the last token's row, and the position and the cache row of the first level.
    """
    words = [word for row in range(rows) for word in ((1 << (row + 1)) - 1, *[0] * (WORDS - 1))]
    behind = (start, start + rows, rows, *place)
    return [*[0] * rows, *range(position, position + rows), *words, *behind, n - 1, position + n, start + n]
