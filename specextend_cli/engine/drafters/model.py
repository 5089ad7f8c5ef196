"""The base of drafters with a model: it reads the committed tokens and drafts over a working set, level by level."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor

from specextend_cli.engine.cache import KVCache
from specextend_cli.engine.config import TreeShape
from specextend_cli.engine.drafters.base import SuspendableDrafter
from specextend_cli.engine.drafters.opt_tree import grow
from specextend_cli.engine.drafters.working_set import WorkingSet
from specextend_cli.engine.head import EagleHead
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.engine.target import Target
from specextend_cli.engine.transfer import upload
from specextend_cli.engine.tree import DraftTree, root

_CHUNK = 64  # committed tokens that may wait for the next draft; more are read at once, as a prompt is


class ModelDrafter(SuspendableDrafter):
    """Reads the prompt with full attention into the full cache, then drafts over the working set.

    With a `window`, the prompt is read in chunks that see only the `window` tokens before them, at positions that the
    model was trained for. Where it `reads` states of the target, row i of its cache stands for that at position i,
    which is known together with token i + 1. `vocabulary` maps the draft's token ids to the target's, where they
    differ. A draft attends to `most` positions at most, its own included; None: any number. `is_self`: the model is the
    target, which computes the committed tokens' keys itself.
    """

    vocabulary: Tensor | None = None
    most: int | None = None
    is_self = False

    def __init__(
        self,
        model: EagleHead | LanguageModel,
        target: Target,
        working: WorkingSet,
        *,
        reads: tuple[int, ...] = (),
        window: int | None = None,
    ) -> None:
        super().__init__(reads, working.config)
        self.model = model
        self.target = target
        self.working = working
        self.window = window if working.config.policy != "full" else None
        self.device = target.lm.device
        self._pending = upload([], self.device)  # committed tokens that are not read yet
        self._features: list[Tensor] = []  # of the positions whose rows are pending
        self._is_first = True
        self._in_prompt = True

    @abstractmethod
    def _forward(self, tokens: Tensor, positions: Tensor, cache: KVCache) -> Tensor:
        """Run the first of the pending tokens; logits [1, draft vocabulary] of what follows the last."""

    @abstractmethod
    def _expand(self, tokens: Tensor, parents: Tensor, positions: Tensor, tree_mask: Tensor) -> Tensor:
        """Run one level of a tree; logits [w, draft vocabulary]. `parents` [w] are rows of the level before."""

    @abstractmethod
    def _remember(self, tokens: Tensor, positions: Tensor, cache: KVCache) -> None:
        """Run the first of the pending tokens for their keys and values only."""

    @property
    def is_restricted(self) -> bool:
        """See `Drafter`."""
        return self.retrieves and self.working.is_restricted

    def visible(self) -> Tensor:
        """See `Drafter`. Includes tokens that wait to be read."""
        waiting = torch.arange(self.working.read, self.target.length, device=self.device)
        return torch.cat((self.working.visible, waiting))

    def begin(self, capacity: int) -> None:
        """See `Drafter`."""
        super().begin(capacity)
        self.working.begin(capacity)
        self._pending = self._pending[:0]
        self._features = []
        self._is_first = self._in_prompt = True

    def suspend(self) -> None:
        """See `Drafter`."""
        super().suspend()
        self._features = []

    def observe(self, tokens: Sequence[int], features: Tensor | None, ids: Tensor | None = None) -> None:
        """See `Drafter`."""
        self._last = tokens[-1]
        if self._is_idle:
            return
        if features is not None:
            self._features.append(features)
        new = upload(tokens, self.device) if ids is None else ids
        if self.reads and self._is_first:  # no state precedes the first token, so it has no row
            new = new[1:]
        self._is_first = False
        self._pending = torch.cat((self._pending, new))
        if len(self._pending) > _CHUNK:
            # The last token stays: it is the root of the next tree.
            (self._read if self._in_prompt else self._follow)(self._pending[:-1])

    def retrieve(self, scores: Tensor) -> None:
        """See `Drafter`."""
        self.working.choose(scores)
        self._in_prompt = False

    def propose(self, shape: TreeShape) -> DraftTree:
        """See `Drafter`."""
        if self._is_idle or min(shape.nodes - 1, shape.depth, shape.forwards) == 0:
            return root(self._last)
        if self._in_prompt:
            self.working.choose(None)
            self._in_prompt = False
        self._leave_room(len(self._pending) + shape.depth)
        tree = self._grown(shape)
        self.working.cache.rollback()
        return self._checked(tree)

    def _grown(self, shape: TreeShape) -> DraftTree:
        """Read the pending tokens; the tree that the model proposes, whose own rows are dropped by the caller.

        Where its runner grows whole trees without the host, by that; else level by level, a forward for each.
        """
        working, tokens = self.working, self._pending
        if self.is_self:
            working.follow()
        drafts = self.model.runner.drafts
        if drafts is not None and drafts.takes(len(tokens), shape):
            features = self._take_features(len(tokens)) if self.reads else None
            tree = drafts.grow(self._last, tokens, features, working.next_position, working.cache, shape)
            self._commit(len(tokens))
            return tree
        first = self._forward(tokens, working.positions(len(tokens)), working.cache)
        self._commit(len(tokens))
        ahead = int(self.is_self)

        def expand(tokens: Tensor, parents: Tensor, depth: int, tree_mask: Tensor) -> Tensor:
            positions = working.positions(1, offset=depth - 1 + ahead).expand(len(tokens))
            return self._expand(tokens, parents, positions, tree_mask)

        return grow(self._last, first, expand, shape, vocabulary=self.vocabulary)

    def _take_features(self, n: int) -> Tensor:
        """The target's states [n, features] before the first n pending tokens."""
        features = torch.cat(self._features)
        left = features[n:]
        self._features = [left.clone()] if len(left) else []  # a copy: a view would keep the whole chunk
        return features[:n].to(self.working.cache.dtype)

    def _read(self, tokens: Tensor) -> None:
        """Read a chunk of the prompt into the full cache."""
        working = self.working
        if self.window is None:
            positions = torch.arange(working.read, working.read + len(tokens), device=self.device)
            self._remember(tokens, positions, working.full)
            working.commit_full(len(tokens))
            self._pending = self._pending[len(tokens) :]
            return
        for at in range(0, len(tokens), self.window):
            working.show(torch.arange(max(working.read - self.window, 0), working.read, device=self.device))
            self._follow(tokens[at : at + self.window])

    def _follow(self, tokens: Tensor) -> None:
        """Read committed tokens over the working set."""
        self._leave_room(len(tokens))
        self._remember(tokens, self.working.positions(len(tokens)), self.working.cache)
        self._commit(len(tokens))

    def _leave_room(self, tokens: int) -> None:
        if self.most is not None:
            self.working.clip(max(self.most - tokens, 1))

    def _commit(self, tokens: int) -> None:
        """Keep the rows of pending tokens; those of the target's own keys are dropped with the tree."""
        if not self.is_self:
            self.working.commit(tokens)
            self._pending = self._pending[tokens:]
