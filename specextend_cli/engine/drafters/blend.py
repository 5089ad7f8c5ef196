"""One draft tree from several sources, so that copied and composed text are both drafted well."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import torch
from torch import Tensor

from specextend_cli.engine.config import TreeShape
from specextend_cli.engine.drafters.base import Drafter
from specextend_cli.engine.drafters.model import ModelDrafter
from specextend_cli.engine.tree import DraftTree, from_lists

Witnesses: TypeAlias = tuple[int, int]
"""Two bit sets of sources: which propose a token, and which propose any token at that place."""

_FADE = 0.99  # what evidence keeps of its weight, each time there is more
_USUAL = 0.4  # what a model promises for the next token, before one was asked
_PRIOR = 4.0  # tokens right, of as many promised, before there is evidence


class BlendDrafter:
    """Merges its sources' trees path by path and keeps the likeliest nodes.

    A token's probability, given the one before it, is the highest that a source gives it, times what such promises
    were worth so far. That is learnt apart for every constellation of sources: a copied token that a model proposes
    too comes true far more often than one that the model, asked at the same place, leaves out.
    """

    name = "blend"

    def __init__(self, sources: Sequence[Drafter]) -> None:
        if not sources:
            raise ValueError("a blend needs at least one source")
        self.sources = tuple(sources)
        self.feature_layers = tuple(dict.fromkeys(layer for source in sources for layer in source.feature_layers))
        self.worth = Worth()
        self._merged: list[_Node] = []
        self._usual = _USUAL  # what models promise for the next token

    @property
    def retrieves(self) -> bool:
        """See `Drafter`."""
        return any(source.retrieves for source in self.sources)

    @property
    def failure(self) -> str | None:
        """What the first source that failed says; the others go on."""
        return next((source.failure for source in self.sources if source.failure), None)

    def begin(self, capacity: int) -> None:
        """See `Drafter`."""
        self._merged = []
        for source in self.sources:
            source.begin(capacity)

    def observe(self, tokens: Sequence[int], features: Tensor | None) -> None:
        """See `Drafter`."""
        self._learn(tokens)
        for source in self.sources:
            source.observe(tokens, self._share(features, source) if source.feature_layers else None)

    def retrieve(self, scores: Tensor) -> None:
        """See `Drafter`."""
        for source in self.sources:
            source.retrieve(scores)

    def visible(self) -> Tensor:
        """What the first source with attention sees."""
        return next(source for source in self.sources if source.retrieves).visible()

    def propose(self, shape: TreeShape) -> DraftTree:
        """See `Drafter`. Sources on a device are read by the host once each, to be merged.

        Where time is accounted for, models are asked only where copies promise less for the next token than models
        usually do: their forwards take as long where nothing is missing.
        """
        trees = self._asked(shape)
        if all(len(tree) == 1 for tree in trees):
            self._merged = []
            return trees[0]
        nodes = self._merged = _merge(trees)
        for node in nodes[1:]:
            above = nodes[node.parent]
            node.witnesses = (node.proposers, above.speakers)
            node.score = above.score * min(node.promise * self.worth.of(node.witnesses), 1.0)
        tokens, parents, scores = zip(*((node.token, node.parent, node.score) for node in nodes), strict=True)
        return from_lists(tokens, parents, scores, trees[0].tokens.device).best(shape.nodes)

    def _asked(self, shape: TreeShape) -> list[DraftTree]:
        """A tree of every source, in their order."""
        trees = {source: source.propose(shape) for source in self.sources if not isinstance(source, ModelDrafter)}
        # Looked at only where it decides: on a device, each look waits for it.
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
        """Every child of a node that came true, verified or not, is evidence of what its promise was worth."""
        at: int | None = 0 if self._merged else None
        for token in tokens:
            if at is None:
                break
            children = self._merged[at].children
            for number, child in children.items():
                self.worth.learn(self._merged[child].witnesses, self._merged[child].promise, number == token)
            at = children.get(token)
        self._merged = []


def _next_promise(tree: DraftTree) -> float:
    return float(tree.scores[1:].max()) if len(tree) > 1 else 0.0


@dataclass
class Worth:
    """Tokens that came true over tokens that were promised, by constellation of witnesses, fading."""

    _promised: dict[Witnesses, float] = field(default_factory=dict)
    _true: dict[Witnesses, float] = field(default_factory=dict)

    def of(self, witnesses: Witnesses) -> float:
        """What a promised token is worth; 1.0 until there is evidence."""
        return (self._true.get(witnesses, 0.0) + _PRIOR) / (self._promised.get(witnesses, 0.0) + _PRIOR)

    def learn(self, witnesses: Witnesses, promise: float, came_true: bool) -> None:
        """One token, promised with that probability."""
        self._promised[witnesses] = _FADE * self._promised.get(witnesses, 0.0) + promise
        self._true[witnesses] = _FADE * self._true.get(witnesses, 0.0) + came_true


@dataclass
class _Node:
    """A token under its parent; `promise` is the highest conditional probability that a source gives it."""

    token: int
    parent: int
    promise: float = 1.0
    score: float = 1.0
    proposers: int = 0
    speakers: int = 0
    witnesses: Witnesses = (0, 0)
    children: dict[int, int] = field(default_factory=dict)


def _merge(trees: Sequence[DraftTree]) -> list[_Node]:
    """All paths of all trees in one, parents before children."""
    nodes = [_Node(int(trees[0].tokens[0]), 0)]
    for i, tree in enumerate(trees):
        scores = tree.scores.tolist()
        merged = [0] * len(tree)
        pairs = list(zip(tree.tokens.tolist(), tree.parents.tolist(), strict=True))
        for number, (token, parent) in enumerate(pairs[1:], 1):
            above = nodes[merged[parent]]
            at = above.children.setdefault(token, len(nodes))
            if at == len(nodes):
                nodes.append(_Node(token, merged[parent], promise=0.0))
            above.speakers |= 1 << i
            nodes[at].proposers |= 1 << i
            nodes[at].promise = max(nodes[at].promise, scores[number] / max(scores[parent], 1e-9))
            merged[number] = at
    return nodes
