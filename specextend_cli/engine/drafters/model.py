"""Drafters with a model of its own keys: a language model, the target itself, or a head.

They read the committed tokens, and draft over a working set, level by level.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from specextend_cli.engine.attention import Backend
from specextend_cli.engine.cache import KVCache
from specextend_cli.engine.config import Retrieval, TreeShape
from specextend_cli.engine.drafters.base import SuspendableDrafter
from specextend_cli.engine.drafters.opt_tree import grow
from specextend_cli.engine.drafters.working_set import WorkingSet, rotary_frequencies
from specextend_cli.engine.head import EagleHead
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.engine.mtp import MtpHead
from specextend_cli.engine.step import Step
from specextend_cli.engine.target import Target
from specextend_cli.engine.transfer import upload
from specextend_cli.engine.tree import DraftTree
from specextend_cli.errors import ModelError

_CHUNK = 64  # committed tokens that may wait for the next draft; more are read at once, as a prompt is


class ModelDrafter(SuspendableDrafter):
    """Reads the prompt with full attention into the full cache, then drafts over the working set.

    With a `window`, the prompt is read in chunks that see only the `window` tokens before them, at positions that the
    model was trained for. Where it `reads` states of the target, row i of its cache stands for that at position i,
    which is known together with token i + 1. `vocabulary` maps the draft's token ids to the target's, where they
    differ. `is_self`: the model is the target, which computes the committed tokens' keys itself.
    """

    vocabulary: Tensor | None = None
    is_self = False

    def __init__(
        self,
        model: EagleHead | LanguageModel,
        target: Target,
        working: WorkingSet,
        *,
        backend: Backend,
        reads: tuple[int, ...] = (),
        window: int | None = None,
    ) -> None:
        super().__init__(reads, working.config)
        self.model = model
        self.target = target
        self.working = working
        self.backend = backend
        self.window = window if working.config.policy != "full" else None
        self.device = target.lm.device
        self._states: Tensor | None = None  # a head's own, of the last drafted level
        self.begin(0)

    @abstractmethod
    def _forward(self, tokens: Tensor, positions: Tensor, cache: KVCache) -> Tensor:
        """Run the first of the pending tokens; logits [1, draft vocabulary] of what follows the last."""

    def _remember(self, tokens: Tensor, positions: Tensor, cache: KVCache) -> None:
        """Run the first of the pending tokens for their keys and values only."""
        self._forward(tokens, positions, cache)

    def _run(self, step: Step) -> Tensor:
        """Logits of the tokens that the target has."""
        step.backend = self.backend
        out = self.model.run(step)
        self._states = out.state
        return out.logits[:, : self.target.lm.vocabulary]

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
        self._pending = upload([], self.device)  # committed tokens that are not read yet
        self._features: list[Tensor] = []  # of the positions whose rows are pending
        self._is_first = self._in_prompt = True

    def suspend(self) -> None:
        """See `Drafter`."""
        super().suspend()
        self._features = []

    def observe(self, tokens: Sequence[int], features: Tensor | None, ids: Tensor | None = None) -> None:
        """See `Drafter`."""
        super().observe(tokens, features, ids)
        if self._is_idle:
            return
        if features is not None:
            self._features.append(features)
        new = upload(tokens, self.device) if ids is None else ids
        if self.is_self:
            self._pending = new[-1:]  # the target has read the others
            return
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

    def _grown(self, shape: TreeShape) -> DraftTree:
        """Read the pending tokens; the tree that the model proposes, whose own rows are dropped.

        Where its runner grows whole trees without the host, by that; else level by level, a forward for each.
        """
        working, tokens = self.working, self._pending
        if self._in_prompt:
            working.choose(None)
            self._in_prompt = False
        if self.is_self:
            working.follow()
        drafts = self.model.runner.drafts
        if drafts is not None and drafts.takes(shape):
            features = self._take_features(len(tokens)) if self.reads else None
            tree = drafts.grow(self._last, tokens, features, working.next_position, working.cache, shape)
            self._commit(len(tokens))
        else:
            first = self._forward(tokens, working.positions(len(tokens)), working.cache)
            self._commit(len(tokens))
            tree = grow(self._last, first, self._expand, shape, vocabulary=self.vocabulary)
        working.cache.rollback()
        return tree

    def _expand(self, tokens: Tensor, parents: Tensor, depth: int, tree_mask: Tensor) -> Tensor:
        positions = self.working.positions(1, offset=depth - 1 + self.is_self).expand(len(tokens))
        states = None if self._states is None else self._states[parents]
        return self._run(Step(tokens, positions, self.working.cache, tree_mask=tree_mask, states=states))

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
        self._remember(tokens, self.working.positions(len(tokens)), self.working.cache)
        self._commit(len(tokens))

    def _commit(self, tokens: int) -> None:
        """Keep the rows of pending tokens; those of the target's own keys are dropped with the tree."""
        if not self.is_self:
            self.working.commit(tokens)
            self._pending = self._pending[tokens:]


class LMDrafter(ModelDrafter):
    """Drafts with `lm`, whose token ids must mean what they mean to the target; it may have more of them, or fewer.

    Given the target's own model, it uses the target's keys and prefills nothing. For `window` see `ModelDrafter`. A
    model with sliding windows, which count rows of its cache, drafts by the policy "full", whatever `config` says.
    ModelError for a model with recurrent layers: its states cannot be those of a working set, or of a tree.
    """

    def __init__(self, lm: LanguageModel, target: Target, config: Retrieval, *, window: int | None = None) -> None:
        if lm.state_bytes:
            raise ModelError(
                f"{type(lm.model).__name__} cannot draft",
                why="some of its layers are recurrent: they have one state, and no keys to choose from",
                fix="draft by n-grams: --draft ngram",
            )
        if any(lm.windows):
            config = replace(config, policy="full")
        self.lm = lm
        self.is_self = lm.model is target.lm.model
        self.name = "self" if self.is_self else "lm"
        working = WorkingSet(
            lm.new_cache,
            config,
            frequencies=rotary_frequencies(lm) if config.re_indexes else None,
            shared=target.cache if self.is_self else None,
        )
        super().__init__(lm, target, working, backend=lm.backend, window=window)

    def _forward(self, tokens: Tensor, positions: Tensor, cache: KVCache) -> Tensor:
        # The target may have tokens that the draft has not.
        return self._run(Step(tokens.clamp(max=self.lm.vocabulary - 1), positions, cache, logits_to_keep=1))


class EagleDrafter(ModelDrafter):
    """A head continues the target's own states; so does the target's multi-token prediction layer.

    Row i of its cache joins the target's state at position i with token i + 1, so rows are positions. States are the
    target's at committed positions and the head's own after them. For `window` see `ModelDrafter`.
    """

    def __init__(self, head: EagleHead, target: Target, config: Retrieval, *, window: int | None = None) -> None:
        self.head = head.eval()
        self.name = "mtp" if isinstance(head, MtpHead) else "eagle3" if head.config.generation == 3 else "eagle"
        self.vocabulary = head.vocabulary
        working = WorkingSet(head.new_cache, config, frequencies=head.rotary.inv_freq)
        layers = head.config.feature_layers
        super().__init__(head, target, working, backend=target.lm.backend, reads=layers, window=window)

    def _forward(self, tokens: Tensor, positions: Tensor, cache: KVCache) -> Tensor:
        if len(tokens) > self.head.runner.most_rows:
            self._remember(tokens[:-1], positions[:-1], cache)
            tokens, positions = tokens[-1:], positions[-1:]
        # A chain is passed as a tree, for which attention is fast; without a mask the rows would be a prompt's.
        order = torch.arange(len(tokens), device=self.device)
        chain = order <= order[:, None] if len(tokens) > 1 else None
        features = self._take_features(len(tokens))
        logits = self._run(Step(tokens, positions, cache, tree_mask=chain, features=features, logits_to_keep=1))
        assert self._states is not None
        self._states = self._states[-1:]
        return logits

    def _remember(self, tokens: Tensor, positions: Tensor, cache: KVCache) -> None:
        features = self._take_features(len(tokens))
        self.head.remember(Step(tokens, positions, cache, backend=self.backend, features=features))
