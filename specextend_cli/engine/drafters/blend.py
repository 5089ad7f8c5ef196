"""One draft tree from several sources, so that copied and composed text are both drafted well."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from specextend_cli.engine.config import TreeShape
from specextend_cli.engine.drafters.base import Drafter
from specextend_cli.engine.tree import DraftTree, from_lists


class BlendDrafter:
    """Merges its sources' trees path by path and keeps the likeliest nodes.

    A path that several sources propose gets the highest of their scores. How much a source's scores are worth is
    learnt: the tokens it got right over the tokens it promised, fading.
    """

    name = "blend"

    def __init__(self, sources: Sequence[Drafter]) -> None:
        if not sources:
            raise ValueError("a blend needs at least one source")
        self.sources = tuple(sources)
        self.feature_layers = tuple(dict.fromkeys(layer for source in sources for layer in source.feature_layers))
        self.retrieves = any(source.retrieves for source in self.sources)
        self._promised = [2.0] * len(self.sources)
        self._kept = [2.0] * len(self.sources)
        self._proposed: list[DraftTree] = []

    def begin(self, capacity: int) -> None:
        """See `Drafter`."""
        self._proposed = []
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
        """See `Drafter`. Sources on a device are read by the host once each, to be merged."""
        self._proposed = [source.propose(shape) for source in self.sources]
        tokens, parents, scores = [int(self._proposed[0].tokens[0])], [0], [1.0]
        children: dict[tuple[int, int], int] = {}
        for i, tree in enumerate(self._proposed):
            trust = min(self._kept[i] / self._promised[i], 1.0)
            merged = [0] * len(tree)
            triples = zip(tree.tokens.tolist(), tree.parents.tolist(), tree.scores.tolist(), strict=True)
            for node, (token, parent, score) in enumerate(triples):
                if node == 0:
                    continue
                above = merged[parent]
                at = children.setdefault((above, token), len(tokens))
                if at == len(tokens):
                    tokens.append(token)
                    parents.append(above)
                    scores.append(0.0)
                # A merged parent may only have gained, so no score rises above its parent's.
                scores[at] = max(scores[at], trust * score)
                merged[node] = at
        return from_lists(tokens, parents, scores, self._proposed[0].tokens.device).best(shape.nodes)

    def _share(self, features: Tensor | None, source: Drafter) -> Tensor | None:
        """The columns of features [m, layers * hidden] that a source asked for, in its order."""
        if features is None or source.feature_layers == self.feature_layers:
            return features
        states = dict(zip(self.feature_layers, features.chunk(len(self.feature_layers), -1), strict=True))
        return torch.cat([states[layer] for layer in source.feature_layers], -1)

    def _learn(self, tokens: Sequence[int]) -> None:
        for i, tree in enumerate(self._proposed):
            ids, parents, scores = tree.tokens.tolist(), tree.parents.tolist(), tree.scores.tolist()
            node, right = 0, 0
            for token in tokens:
                node = next((c for c in range(node + 1, len(ids)) if parents[c] == node and ids[c] == token), 0)
                if node == 0:
                    break
                right += 1
            self._promised[i] = 0.95 * self._promised[i] + sum(scores[1:])
            self._kept[i] = 0.95 * self._kept[i] + right
        self._proposed = []
