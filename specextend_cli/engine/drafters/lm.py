"""A language model as the drafter: a small one of its own, or the target itself over a small working set."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from specextend_cli.engine.attention import Pass
from specextend_cli.engine.config import Retrieval, TreeShape
from specextend_cli.engine.drafters.opt_tree import Expand, grow
from specextend_cli.engine.drafters.working import WorkingCache
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.engine.target import Target
from specextend_cli.engine.tree import DraftTree, root
from specextend_cli.errors import ModelError

_PADDING = 512  # output heads are padded to round sizes; a larger difference means another vocabulary
_CHUNK = 64  # committed tokens that wait for the next draft; more are read at once, as a prompt is


class LMDrafter:
    """Drafts with `lm`, which must share the target's vocabulary.

    Given the target's own model, it uses the target's keys and prefills nothing. A model of its own reads the prompt
    with full attention; with a `window`, piece by piece, each piece seeing only the `window` tokens before it, at
    positions the model was trained for.
    """

    feature_layers: tuple[int, ...] = ()

    def __init__(self, lm: LanguageModel, target: Target, config: Retrieval, *, window: int | None = None) -> None:
        if abs(lm.vocabulary - target.lm.vocabulary) > _PADDING:
            raise ModelError(
                f"the draft has {lm.vocabulary:,} tokens in its vocabulary, the target {target.lm.vocabulary:,}",
                why="a draft must write in the target's own tokens",
                fix="choose a draft of the same family: specextend presets list",
            )
        self.lm = lm
        self.target = target
        self.window = window if config.policy != "full" else None
        self.is_self = lm.model is target.lm.model
        self.name = "self" if self.is_self else "lm"
        self.working = WorkingCache(lm, config, shared=target.cache if self.is_self else None)
        self.retrieves = config.policy != "full"
        self._pending: list[int] = []  # committed tokens that the draft has not read
        self._in_prompt = True

    def visible(self) -> Tensor:
        """See `Drafter`. Tokens that wait to be read are among them."""
        waiting = torch.arange(self.working.read, self.target.length, device=self.lm.device)
        return torch.cat((self.working.visible, waiting))

    def begin(self, capacity: int) -> None:
        """See `Drafter`."""
        self.working.begin(capacity)
        self._pending = []
        self._in_prompt = True

    def observe(self, tokens: Sequence[int], features: Tensor | None) -> None:
        """See `Drafter`."""
        self._pending.extend(tokens)
        if self.is_self:
            del self._pending[:-1]  # the target has read the others
        elif len(self._pending) > _CHUNK:
            # The last token stays: it is the root of the next tree.
            (self._read if self._in_prompt else self._extend)(self._pending[:-1])
            del self._pending[:-1]

    def retrieve(self, scores: Tensor) -> None:
        """See `Drafter`."""
        self.working.choose(scores)
        self._in_prompt = False

    def propose(self, shape: TreeShape) -> DraftTree:
        """See `Drafter`."""
        token = self._pending[-1]
        if min(shape.nodes - 1, shape.depth, shape.forwards) == 0:
            return root(token, self.lm.device)
        working = self.working
        if self._in_prompt:
            working.choose(None)
            self._in_prompt = False
        if self.is_self:
            working.follow()
            first = self._forward(self._pending)
            ahead = 1  # the root's keys are the target's to compute: ours go with the tree
        else:
            first = self._extend(self._pending)
            self._pending = []
            ahead = 0
        tree = grow(token, self._log_probabilities(first)[0], self._expander(ahead), shape)
        working.cache.rollback()
        return tree

    def _read(self, tokens: list[int]) -> None:
        working = self.working
        if self.window is None:
            positions = torch.arange(working.read, working.read + len(tokens), device=self.lm.device)
            self.lm.forward(self._ids(tokens), positions, working.full, logits_to_keep=1)
            working.commit_full(len(tokens))
            return
        for at in range(0, len(tokens), self.window):
            piece = tokens[at : at + self.window]
            working.show(torch.arange(max(working.read - self.window, 0), working.read, device=self.lm.device))
            self._extend(piece)

    def _extend(self, tokens: list[int]) -> Tensor:
        """Read committed tokens over the working set; logits [1, vocabulary] of the last."""
        logits = self._forward(tokens)
        self.working.commit(len(tokens))
        return logits

    def _expander(self, ahead: int) -> Expand:
        def expand(tokens: Tensor, depth: int, tree_mask: Tensor) -> Tensor:
            positions = self.working.positions(1, offset=depth - 1 + ahead).expand(len(tokens))
            this_pass = Pass(self.lm.backend, tree_mask=tree_mask)
            return self._log_probabilities(
                self.lm.forward(tokens, positions, self.working.cache, this_pass=this_pass).logits
            )

        return expand

    def _forward(self, tokens: list[int]) -> Tensor:
        positions = self.working.positions(len(tokens))
        return self.lm.forward(self._ids(tokens), positions, self.working.cache, logits_to_keep=1).logits

    def _log_probabilities(self, logits: Tensor) -> Tensor:
        return logits[:, : self.target.lm.vocabulary].float().log_softmax(-1)

    def _ids(self, tokens: list[int]) -> Tensor:
        # The target's padding rows may go beyond the draft's; they stand for no token, but a prompt could hold one.
        return torch.tensor(tokens, device=self.lm.device).clamp_(max=self.lm.vocabulary - 1)
