"""One draft tree from several drafters, so that copied and composed text are both drafted well."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from specextend_cli.engine.config import TreeShape
from specextend_cli.engine.drafters.base import Calibration, Drafter, Kind, SuspendableDrafter
from specextend_cli.engine.tree import DraftTree

_USUAL = 0.4  # a model's usual probability of its best next token, before it was observed


class BlendDrafter(Drafter):
    """Merges its sources' trees path by path and keeps the most probable nodes.

    A token's conditional probability is the highest that a source gives it, times the share of such promises that came
    true so far. The share is learnt for each combination of sources: a copied token that a model proposes as well is
    accepted far more often than one that the model leaves out.
    """

    name = "blend"

    def __init__(self, sources: Sequence[Drafter]) -> None:
        self.sources = tuple(sources)
        self.reads_prompt = any(source.reads_prompt for source in sources if source.feature_layers)
        self.calibration = Calibration()
        self._merged: list[_Node] = []
        self._usual = _USUAL  # a model's probability of its best next token

    @property
    def feature_layers(self) -> tuple[int, ...]:
        """See `Drafter`."""
        return tuple(dict.fromkeys(layer for source in self.sources for layer in source.feature_layers))

    @property
    def retrieves(self) -> bool:
        """See `Drafter`."""
        return any(source.retrieves for source in self.sources)

    @property
    def is_restricted(self) -> bool:
        """See `Drafter`."""
        return any(source.is_restricted for source in self.sources)

    @property
    def failure(self) -> str | None:
        """The first failure of a source; the other sources continue."""
        return next((source.failure for source in self.sources if source.failure), None)

    def begin(self, capacity: int) -> None:
        """See `Drafter`."""
        self._merged = []
        for source in self.sources:
            source.begin(capacity)

    def suspend(self) -> None:
        """See `Drafter`."""
        for source in self.sources:
            source.suspend()

    def observe(self, tokens: Sequence[int], features: Tensor | None, ids: Tensor | None = None) -> None:
        """See `Drafter`."""
        self._learn(tokens)
        for source in self.sources:
            source.observe(tokens, self._share(features, source) if source.feature_layers else None, ids)

    def retrieve(self, scores: Tensor) -> None:
        """See `Drafter`."""
        for source in self.sources:
            source.retrieve(scores)

    def visible(self) -> Tensor:
        """See `Drafter`. Of the first source with attention."""
        return next(source for source in self.sources if source.retrieves).visible()

    def propose(self, shape: TreeShape) -> DraftTree:
        """See `Drafter`. Each model's tree is read from its device once; they are merged on the host.

        With a floor, models are asked only where copies give the next token a lower probability than models usually
        do: otherwise their forwards cost time and add little.
        """
        trees = self._asked(shape)
        if all(len(tree) == 1 for tree in trees):
            self._merged = []
            return trees[0]
        nodes = self._merged = _merge(trees)
        for node in nodes[1:]:
            above = nodes[node.parent]
            node.sources = node.proposers, above.asked
            node.score = above.score * min(node.promise * self.calibration.rate(node.sources), 1.0)
        tree = DraftTree(
            [node.token for node in nodes],
            [node.parent for node in nodes],
            [node.score for node in nodes],
            [node.known_after for node in nodes],
            forwards=max(tree.cost[1] for tree in trees),
        )
        return tree.best(shape.nodes)

    def _asked(self, shape: TreeShape) -> list[DraftTree]:
        """A tree of every source, in their order."""
        others = (source for source in self.sources if not isinstance(source, SuspendableDrafter))
        trees = {source: source.propose(shape) for source in others}
        decides = shape.floor > 0 and shape.forwards > 0
        is_idle = decides and max(map(_next_promise, trees.values()), default=0.0) >= self._usual
        for source in self.sources:
            if source not in trees:
                trees[source] = source.propose(replace(shape, forwards=0) if is_idle else shape)
                if decides and not is_idle:
                    self._usual += 0.05 * (_next_promise(trees[source]) - self._usual)
        return [trees[source] for source in self.sources]

    def _share(self, features: Tensor | None, source: Drafter) -> Tensor | None:
        """The columns of features [m, layers * hidden] that a source asked for, in its order."""
        if features is None or source.feature_layers == self.feature_layers:
            return features
        states = dict(zip(self.feature_layers, features.chunk(len(self.feature_layers), -1), strict=True))
        return torch.cat([states[layer] for layer in source.feature_layers], -1)

    def _learn(self, tokens: Sequence[int]) -> None:
        """Every child of an accepted node, verified or not, is evidence of how often its promise comes true."""
        at: int | None = 0 if self._merged else None
        for token in tokens:
            if at is None:
                break
            children = self._merged[at].children
            for number, child in children.items():
                self.calibration.learn(self._merged[child].sources, number == token, self._merged[child].promise)
            at = children.get(token)
        self._merged = []


def _next_promise(tree: DraftTree) -> float:
    return max(tree.scores[1:], default=0.0)


@dataclass(slots=True)
class _Node:
    """A token after its parent; `promise` is the highest conditional probability that a source gives it.

    `sources` are two bit sets: those that propose the token, and those that propose any token after the same parent.
    """

    token: int
    parent: int
    promise: float = 1.0
    score: float = 1.0
    proposers: int = 0
    asked: int = 0  # the sources that propose children
    known_after: int = 0  # forwards
    sources: Kind = (0, 0)
    children: dict[int, int] = field(default_factory=dict)


def _merge(trees: Sequence[DraftTree]) -> list[_Node]:
    """All paths of all trees in one, parents before children."""
    nodes = [_Node(trees[0].tokens[0], 0)]
    for i, tree in enumerate(trees):
        scores = tree.scores
        merged = [0] * len(tree)
        rows = list(zip(tree.tokens, tree.parents, tree.cost[0], strict=True))
        for number, (token, parent, known_after) in enumerate(rows[1:], 1):
            above = nodes[merged[parent]]
            at = above.children.setdefault(token, len(nodes))
            if at == len(nodes):
                nodes.append(_Node(token, merged[parent], promise=0.0, known_after=known_after))
            node = nodes[at]
            above.asked |= 1 << i
            node.proposers |= 1 << i
            node.known_after = min(node.known_after, known_after)
            node.promise = max(node.promise, scores[number] / max(scores[parent], 1e-9))
            merged[number] = at
    return nodes
