"""Published methods, composed of our own parts.

MagicDec (arXiv 2408.11049): the target drafts a chain for itself over a streaming cache.

TriForce (arXiv 2404.11912): two levels of drafting under one verification. The target drafts for itself over a small
set of its own keys, retrieved once after prefill. A smaller model drafts for this draft: the preset's language model
over a streaming cache, or n-grams if it has none. Each level continues a chain greedily; the level above keeps what
agrees with its own choice.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from specextend_cli.bench.models import Models, Recipe
from specextend_cli.engine.config import Retrieval, TreeShape
from specextend_cli.engine.drafters import LMDrafter
from specextend_cli.engine.target import Target
from specextend_cli.engine.transfer import upload
from specextend_cli.engine.tree import DraftTree

_LENGTH = 6  # tokens that the retrieved target of TriForce drafts for the whole one
_AHEAD = 3  # tokens that the smallest drafter of TriForce drafts for the retrieved target


def magicdec(models: Models) -> Recipe:
    """A chain of four without a gate."""
    return models.recipe("self", models.under("streaming"), TreeShape(nodes=5, depth=4, width=1, threshold=0.0))


def triforce(models: Models) -> Recipe:
    """Chains without a gate, as published; a working set of the preset's size, chosen once."""
    retrieval = models.under("retrieval", every=0)
    streaming = models.under("streaming")
    small = models.drafter("lm", Target(models.lm), streaming) if models.preset.draft.model == "lm" else None

    def build(target: Target) -> TriForceDrafter:
        source = SmallModel(small.lm, target, streaming) if isinstance(small, LMDrafter) else Lookup()
        return TriForceDrafter(target, source, retrieval)

    return Recipe(build, retrieval, TreeShape(nodes=_LENGTH + 1, depth=_LENGTH, width=1, threshold=0.0))


class Lookup:
    """Copies what followed the last two tokens, or the last one, when they were committed before."""

    def begin(self, capacity: int) -> None:
        """Forget the last sequence."""
        self._tokens: list[int] = []
        self._after: dict[tuple[int, ...], int] = {}

    def observe(self, tokens: Sequence[int], features: Tensor | None) -> None:
        """Tokens that were committed."""
        for token in tokens:
            end = len(self._tokens)
            for n in (1, 2):
                if end >= n:
                    self._after[tuple(self._tokens[end - n :])] = end
            self._tokens.append(token)

    def follow(self, supposed: Sequence[int], n: int) -> list[int]:
        """At most `n` tokens after the committed and the `supposed` ones, none of which is remembered."""
        last = (*self._tokens[-2:], *supposed)
        place = self._after.get(tuple(last[-2:]), self._after.get(tuple(last[-1:])))
        return [] if place is None else self._tokens[place : place + n]


class SmallModel(LMDrafter):
    """A language model over a streaming cache, greedy."""

    def follow(self, supposed: Sequence[int], n: int) -> list[int]:
        """At most `n` tokens after the committed and the `supposed` ones, which are rolled back."""
        working = self.working
        if (working.read and not working.cache.length) or working.cache.length > 2 * working.config.size:
            working.choose(None)
            self._in_prompt = False
        if len(self._pending) > 1:  # the last committed token is supposed to be followed, like the others
            self._follow(self._pending[:-1])
        tokens = torch.cat((self._pending, upload(supposed, self.device)))
        drafted: list[int] = []
        offset = 0
        while len(drafted) < n:
            logits = self._forward(tokens, working.positions(len(tokens), offset=offset), working.cache)
            offset += len(tokens)
            tokens = logits[-1:].argmax(-1)
            drafted += tokens.tolist()
        working.cache.rollback()
        return drafted


class TriForceDrafter(LMDrafter):
    """The target over its retrieved keys, verifying what a smaller source supposes, as a drafter of chains."""

    def __init__(self, target: Target, source: Lookup | SmallModel, config: Retrieval) -> None:
        self.source = source
        super().__init__(target.lm, target, config)
        self.name = "triforce"

    def begin(self, capacity: int) -> None:
        """A new sequence, for the source too."""
        super().begin(capacity)
        self.source.begin(capacity)

    def observe(self, tokens: Sequence[int], features: Tensor | None, ids: Tensor | None = None) -> None:
        """Committed tokens, for the source too."""
        super().observe(tokens, features, ids)
        self.source.observe(tokens, None)

    def propose(self, shape: TreeShape) -> DraftTree:
        """A chain; a node's score is the retrieved target's own probability of its path."""
        most = min(shape.nodes - 1, shape.depth)
        self.working.follow()
        chain, scores = [self._last], [1.0]
        cache, base = self.working.cache, self.working.cache.length
        start = self.working.positions(1)
        while len(chain) - 1 < most:
            supposed = self.source.follow(chain[1:], min(_AHEAD, most - len(chain)))
            tokens = torch.tensor([chain[-1], *supposed], device=self.device)
            positions = start + len(chain) - 1 + torch.arange(len(tokens), device=self.device)
            probabilities = self.lm.forward(tokens, positions, cache).logits.float().softmax(-1)
            best, choice = (values.tolist() for values in probabilities.max(-1))
            agreed = next((i for i, token in enumerate(supposed) if choice[i] != token), len(supposed)) + 1
            chain += choice[:agreed]
            for score in best[:agreed]:
                scores.append(scores[-1] * score)
            # The rows of the old last token and of what agreed stay for the next round, the rest was wrong.
            cache.rollback(base + len(chain) - 1)
        cache.rollback(base)
        del chain[most + 1 :], scores[most + 1 :]
        return DraftTree(chain, [max(i - 1, 0) for i in range(len(chain))], scores)
