"""A deliberately bad drafter: well-formed trees of random tokens. Losslessness must not depend on a drafter's wits."""

from __future__ import annotations

import random
from collections.abc import Sequence

from torch import Tensor

from specextend_cli.engine.config import TreeShape
from specextend_cli.engine.drafters import Drafter
from specextend_cli.engine.tree import DraftTree


class RandomDrafter(Drafter):
    name = "random"

    def __init__(self, vocabulary: int, seed: int = 0) -> None:
        self.vocabulary = vocabulary
        self.random = random.Random(seed)
        self._last = 0

    def observe(self, tokens: Sequence[int], features: Tensor | None, ids: Tensor | None = None) -> None:
        self._last = tokens[-1]

    def propose(self, shape: TreeShape) -> DraftTree:
        tokens, parents, scores = [self._last], [0], [1.0]
        siblings: set[tuple[int, int]] = set()
        for _ in range(shape.nodes - 1):
            parent, token = self.random.randrange(len(tokens)), self.random.randrange(self.vocabulary)
            if (parent, token) not in siblings:
                siblings.add((parent, token))
                tokens.append(token)
                parents.append(parent)
                scores.append(scores[parent] * self.random.random())
        return DraftTree(tokens, parents, scores)
