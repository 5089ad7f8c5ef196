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
from specextend_cli.engine.drafters.draft_cache import DraftCache, rotary_frequencies
from specextend_cli.engine.lm import LanguageModel
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
        source = Lookup() if small is None else SmallModel(small, streaming)
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


class SmallModel:
    """A language model over a streaming cache, greedy."""

    def __init__(self, lm: LanguageModel, config: Retrieval) -> None:
        self.lm = lm
        frequencies = rotary_frequencies(lm) if config.re_indexes else None
        self.working = DraftCache(lm.new_cache, config, frequencies=frequencies)
        self._unread: list[int] = []

    def begin(self, capacity: int) -> None:
        """See `Source`."""
        self.working.begin(capacity)
        self._unread = []

    def observe(self, tokens: Sequence[int]) -> None:
        """See `Source`. Whole pieces of the prompt are read at once."""
        working = self.working
        self._unread.extend(tokens)
        if len(self._unread) > 64:
            piece = self._unread[:-1]
            positions = torch.arange(working.read, working.read + len(piece), device=self.lm.device)
            self.lm.forward(self._ids(piece), positions, working.full, logits_to_keep=1)
            working.commit_full(len(piece))
            del self._unread[:-1]

    def follow(self, supposed: Sequence[int], n: int) -> list[int]:
        """See `Source`."""
        working = self.working
        if working.stale or working.cache.length > 2 * working.config.size:
            working.choose(None)
        if len(self._unread) > 1:  # the last committed token is supposed to be followed, like the others
            self._forward(self._unread[:-1], 0)
            working.commit(len(self._unread) - 1)
            del self._unread[:-1]
        tokens = [*self._unread, *supposed]
        drafted: list[int] = []
        offset = 0
        while len(drafted) < n:
            logits = self._forward(tokens, offset)
            offset += len(tokens)
            tokens = [int(logits[-1].argmax())]
            drafted += tokens
        working.cache.rollback()
        return drafted

    def _forward(self, tokens: Sequence[int], offset: int) -> Tensor:
        positions = self.working.positions(len(tokens), offset=offset)
        return self.lm.forward(self._ids(tokens), positions, self.working.cache, logits_to_keep=1).logits

    def _ids(self, tokens: Sequence[int]) -> Tensor:
        return torch.tensor(tokens, device=self.lm.device).clamp_(max=self.lm.vocabulary - 1)


class TriForceDrafter:
    """The target over its retrieved keys, verifying what a smaller source supposes, as a drafter of chains."""

    name = "triforce"
    feature_layers: tuple[int, ...] = ()
    retrieves = True
    failure: str | None = None

    def __init__(self, target: Target, source: Source, config: Retrieval) -> None:
        self.target = target
        self.source = source
        frequencies = rotary_frequencies(target.lm) if config.re_indexes else None
        self.working = DraftCache(target.lm.new_cache, config, frequencies=frequencies, shared=target.cache)
        self._last = 0
        self._chosen = False

    def begin(self, capacity: int) -> None:
        """See `Drafter`."""
        self.working.begin(capacity)
        self.source.begin(capacity)
        self._chosen = False

    def observe(self, tokens: Sequence[int], features: Tensor | None) -> None:
        """See `Drafter`."""
        self.source.observe(tokens)
        self.working.note(tokens)
        self._last = tokens[-1]

    def retrieve(self, scores: Tensor) -> None:
        """See `Drafter`."""
        self.working.choose(scores)
        self._chosen = True

    def visible(self) -> Tensor:
        """See `Drafter`."""
        waiting = torch.arange(self.working.read, self.target.length, device=self.target.lm.device)
        return torch.cat((self.working.visible, waiting))

    def propose(self, shape: TreeShape) -> DraftTree:
        """See `Drafter`. A chain; a node's score is the retrieved target's own probability of its path."""
        device = self.target.lm.device
        most = min(shape.nodes - 1, shape.depth)
        if most == 0 or shape.forwards == 0:
            return root(self._last, device)
        if not self._chosen:
            self.working.choose(None)
            self._chosen = True
        self.working.follow()
        chain, scores = [self._last], [1.0]
        cache, base = self.working.cache, self.working.cache.length
        start = self.working.positions(1)
        while len(chain) - 1 < most:
            supposed = self.source.follow(chain[1:], min(_AHEAD, most - len(chain)))
            tokens = torch.tensor([chain[-1], *supposed], device=device)
            positions = start + len(chain) - 1 + torch.arange(len(tokens), device=device)
            probabilities = self.target.lm.forward(tokens, positions, cache).logits.float().softmax(-1)
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
        return from_lists(chain[:nodes], parents, scores[:nodes], device)
