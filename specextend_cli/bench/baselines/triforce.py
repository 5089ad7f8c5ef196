"""TriForce (arXiv 2404.11912) with our parts: two levels of drafting under one verification.

The target drafts for itself over a small set of its own keys, retrieved once after prefill. A smaller model drafts for
this draft: the preset's language model over a streaming cache, or n-grams if it has none. Each level continues a chain
greedily; the level above keeps what agrees with its own choice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

from specextend_cli.bench.models import Models, Recipe
from specextend_cli.engine.config import Retrieval, TreeShape
from specextend_cli.engine.drafters import LMDrafter
from specextend_cli.engine.target import Target
from specextend_cli.engine.tree import DraftTree, from_lists, root

_LENGTH = 6  # tokens that the retrieved target drafts for the whole one
_AHEAD = 3  # tokens that the smallest one drafts for the retrieved target


def recipe(models: Models) -> Recipe:
    """Chains without a gate, as published; a working set of the preset's size, chosen once."""
    retrieval = models.under("retrieval", every=0)
    small = models.draft_lm if models.preset.draft.model == "lm" else None
    streaming = models.under("streaming")

    def build(target: Target) -> TriForceDrafter:
        source = Lookup() if small is None else SmallModel(small, target, streaming)
        return TriForceDrafter(target, source, retrieval)

    return Recipe(build, retrieval, TreeShape(nodes=_LENGTH + 1, depth=_LENGTH, width=1, threshold=0.0))


class Source(Protocol):
    """The smallest drafter: continues what is committed and what is only supposed."""

    def begin(self, capacity: int) -> None:
        """Forget the last sequence."""

    def observe(self, tokens: Sequence[int]) -> None:
        """Tokens that were committed."""

    def follow(self, supposed: Sequence[int], n: int) -> list[int]:
        """At most `n` tokens after the committed and the `supposed` ones, none of which is remembered."""


class Lookup:
    """What followed the last two tokens, or the last one, when they were committed before."""

    def begin(self, capacity: int) -> None:
        """See `Source`."""
        self._tokens: list[int] = []
        self._after: dict[tuple[int, ...], int] = {}

    def observe(self, tokens: Sequence[int]) -> None:
        """See `Source`."""
        for token in tokens:
            end = len(self._tokens)
            for n in (1, 2):
                if end >= n:
                    self._after[tuple(self._tokens[end - n :])] = end
            self._tokens.append(token)

    def follow(self, supposed: Sequence[int], n: int) -> list[int]:
        """See `Source`."""
        last = (*self._tokens[-2:], *supposed)
        place = self._after.get(tuple(last[-2:]), self._after.get(tuple(last[-1:])))
        return [] if place is None else self._tokens[place : place + n]


class SmallModel(LMDrafter):
    """A language model over a streaming cache, greedy."""

    def observe(self, tokens: Sequence[int], features: Tensor | None = None) -> None:
        """See `Source`."""
        super().observe(tokens, features)

    def follow(self, supposed: Sequence[int], n: int) -> list[int]:
        """See `Source`."""
        working = self.working
        if working.stale or working.cache.length > 2 * working.config.size:
            self.working.choose(None)
            self._in_prompt = False
        if len(self._pending) > 1:  # the last committed token is supposed to be followed, like the others
            self._follow(self._pending[:-1])
        tokens = [*self._pending, *supposed]
        drafted: list[int] = []
        offset = 0
        while len(drafted) < n:
            logits = self._forward(tokens, working.positions(len(tokens), offset=offset), working.cache)
            offset += len(tokens)
            tokens = [int(logits[-1].argmax())]
            drafted += tokens
        working.cache.rollback()
        return drafted


class TriForceDrafter(LMDrafter):
    """The target over its retrieved keys, verifying what a smaller source supposes, as a drafter of chains."""

    def __init__(self, target: Target, source: Source, config: Retrieval) -> None:
        super().__init__(target.lm, target, config)
        self.name = "triforce"
        self.source = source

    def begin(self, capacity: int) -> None:
        """See `Drafter`."""
        super().begin(capacity)
        self.source.begin(capacity)

    def observe(self, tokens: Sequence[int], features: Tensor | None) -> None:
        """See `Drafter`."""
        super().observe(tokens, features)
        self.source.observe(tokens)

    def propose(self, shape: TreeShape) -> DraftTree:
        """See `Drafter`. A chain; a node's score is the retrieved target's own probability of its path."""
        last, most = self._pending[-1], min(shape.nodes - 1, shape.depth)
        if most == 0 or shape.forwards == 0:
            return root(last, self.device)
        if self._in_prompt:
            self.working.choose(None)
            self._in_prompt = False
        self.working.follow()
        chain, scores = [last], [1.0]
        cache, base = self.working.cache, self.working.cache.length
        start = self.working.positions(1)
        while len(chain) - 1 < most:
            supposed = self.source.follow(chain[1:], min(_AHEAD, most - len(chain)))
            tokens = torch.tensor([chain[-1], *supposed], device=self.device)
            positions = start + len(chain) - 1 + torch.arange(len(tokens), device=self.device)
            probabilities = self.lm.forward(tokens, positions, cache).logits.float().softmax(-1)
            best, choice = (values.tolist() for values in probabilities.max(-1))
            agreed = next((i for i, token in enumerate(supposed) if choice[i] != token), len(supposed))
            for score, token in zip(best[: agreed + 1], choice[: agreed + 1], strict=True):
                scores.append(scores[-1] * score)
                chain.append(token)
            # The rows of the old last token and of what agreed stay for the next round, the rest was wrong.
            cache.rollback(base + len(chain) - 1)
        cache.rollback(base)
        nodes = min(len(chain), most + 1)
        parents = [max(i - 1, 0) for i in range(nodes)]
        return from_lists(chain[:nodes], parents, scores[:nodes], self.device)
