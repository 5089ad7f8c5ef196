"""What every drafter with a model of its own shares: reading what is committed, and drafting over a working set."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor

from specextend_cli.engine.attention import ForwardContext
from specextend_cli.engine.cache import KVCache
from specextend_cli.engine.config import TreeShape
from specextend_cli.engine.drafters.draft_cache import DraftCache
from specextend_cli.engine.drafters.opt_tree import grow
from specextend_cli.engine.target import Target
from specextend_cli.engine.tree import DraftTree, root

_CHUNK = 64  # committed tokens that wait for the next draft; more are read at once, as a prompt is


class ModelDrafter(ABC):
    """Reads the prompt with full attention into the full cache, then drafts over the working one.

    With a `window`, the prompt is read piece by piece, each piece seeing only the `window` tokens before it, at
    positions the model was trained for. `vocabulary` maps the draft's token ids to the target's, where they differ.
    """

    name: str
    feature_layers: tuple[int, ...] = ()
    vocabulary: Tensor | None = None

    def __init__(self, target: Target, working: DraftCache, *, window: int | None = None) -> None:
        self.target = target
        self.working = working
        self.window = window if working.config.policy != "full" else None
        self.retrieves = working.config.policy != "full"
        self.failure: str | None = None
        self.device = target.lm.device
        self._pending: list[int] = []  # committed tokens that the draft has not read
        self._in_prompt = True

    @abstractmethod
    def _forward(self, tokens: list[int], positions: Tensor, cache: KVCache) -> Tensor:
        """Run the first of the pending tokens; logits [1, draft vocabulary] of what follows the last."""

    def _remember(self, tokens: list[int], positions: Tensor, cache: KVCache) -> None:
        """Run the first of the pending tokens for their keys and values alone."""
        self._forward(tokens, positions, cache)

    @abstractmethod
    def _expand(self, tokens: Tensor, parents: Tensor, positions: Tensor, this_pass: ForwardContext) -> Tensor:
        """Run one level of a tree; logits [w, draft vocabulary]. `parents` [w] are rows of the level before."""

    def visible(self) -> Tensor:
        """See `Drafter`. Tokens that wait to be read are among them."""
        waiting = torch.arange(self.working.read, self.target.length, device=self.device)
        return torch.cat((self.working.visible, waiting))

    def begin(self, capacity: int) -> None:
        """See `Drafter`."""
        self.working.begin(capacity)
        self._pending = []
        self._in_prompt = True

    def observe(self, tokens: Sequence[int], features: Tensor | None) -> None:
        """See `Drafter`."""
        if self.failure:
            self._pending = [tokens[-1]]
            return
        self.working.note(tokens)
        self._pending.extend(tokens)
        if len(self._pending) > _CHUNK:
            # The last token stays: it is the root of the next tree.
            (self._read if self._in_prompt else self._follow)(self._pending[:-1])

    def retrieve(self, scores: Tensor) -> None:
        """See `Drafter`."""
        self.working.choose(scores)
        self._in_prompt = False

    def propose(self, shape: TreeShape) -> DraftTree:
        """See `Drafter`."""
        token = self._pending[-1]
        if self.failure or min(shape.nodes - 1, shape.depth, shape.forwards) == 0:
            return root(token, self.device)
        if self._in_prompt:
            self.working.choose(None)
            self._in_prompt = False
        return self._grow(token, self._extend(self._pending), shape)

    def _grow(self, token: int, first: Tensor, shape: TreeShape, ahead: int = 0) -> DraftTree:
        """A tree of `shape` around `token`; its nodes come `ahead` rows behind those in the working cache.

        A model whose scores are not numbers is at fault for good: the root alone, and `failure` says so.
        """

        def expand(tokens: Tensor, parents: Tensor, depth: int, tree_mask: Tensor) -> Tensor:
            positions = self.working.positions(1, offset=depth - 1 + ahead).expand(len(tokens))
            this_pass = ForwardContext(self.target.lm.backend, tree_mask=tree_mask)
            return _log_probabilities(self._expand(tokens, parents, positions, this_pass))

        tree = grow(token, _log_probabilities(first)[0], expand, shape, vocabulary=self.vocabulary)
        self.working.cache.rollback()
        if not tree.is_finite:
            self.failure = f"the {self.name} draft computes values that are not numbers"
            self.retrieves = False
            return root(token, self.device)
        return tree

    def _read(self, tokens: list[int]) -> None:
        """Read a piece of the prompt into the full cache."""
        working = self.working
        if self.window is None:
            positions = torch.arange(working.read, working.read + len(tokens), device=self.device)
            self._remember(tokens, positions, working.full)
            working.commit_full(len(tokens))
            del self._pending[: len(tokens)]
            return
        for at in range(0, len(tokens), self.window):
            working.show(torch.arange(max(working.read - self.window, 0), working.read, device=self.device))
            self._follow(tokens[at : at + self.window])

    def _follow(self, tokens: list[int]) -> None:
        """Read committed tokens over the working set."""
        self._remember(tokens, self.working.positions(len(tokens)), self.working.cache)
        self._commit(len(tokens))

    def _extend(self, tokens: list[int]) -> Tensor:
        """`_follow`, and logits [1, draft vocabulary] of what comes next."""
        logits = self._forward(tokens, self.working.positions(len(tokens)), self.working.cache)
        self._commit(len(tokens))
        return logits

    def _commit(self, tokens: int) -> None:
        self.working.commit(tokens)
        del self._pending[:tokens]


def _log_probabilities(logits: Tensor) -> Tensor:
    return logits.float().log_softmax(-1)
