"""An EAGLE head as the drafter: it continues the target's own states (EAGLE-1, -2 and -3)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from specextend_cli.engine.attention import ForwardContext
from specextend_cli.engine.cache import KVCache
from specextend_cli.engine.config import Retrieval
from specextend_cli.engine.drafters.draft_cache import DraftCache
from specextend_cli.engine.drafters.model import ModelDrafter
from specextend_cli.engine.head import EagleHead, HeadOutput
from specextend_cli.engine.target import Target
from specextend_cli.errors import ModelError

_FEW = 16  # rows that are run together; of more, the last one's output is all that is wanted


class EagleDrafter(ModelDrafter):
    """Row i of its cache joins the target's state at position i with token i + 1, so that rows are positions.

    States are those of the target wherever the target has been, and the head's own beyond. For `window` see
    `ModelDrafter`. ModelError for a head of another target.
    """

    def __init__(self, head: EagleHead, target: Target, config: Retrieval, *, window: int | None = None) -> None:
        check_fits(head, target)
        self.head = head.eval()
        self.name = "eagle3" if head.config.generation == 3 else "eagle"
        self.feature_layers = head.config.feature_layers
        self.vocabulary = head.vocabulary
        super().__init__(target, DraftCache(head.new_cache, config, frequencies=head.frequencies), window=window)
        self._features: list[Tensor] = []  # of the positions whose rows wait
        self._states = torch.empty(0)  # the head's own, of the level last drafted
        self._is_first = True

    def begin(self, capacity: int) -> None:
        """See `Drafter`."""
        super().begin(capacity)
        self._features = []
        self._is_first = True

    def observe(self, tokens: Sequence[int], features: Tensor | None) -> None:
        """See `Drafter`."""
        if features is not None and not self.failure:
            self._features.append(features)
        if self._is_first:  # nothing precedes the first token, so it makes no row
            self.working.note(tokens[:1])
            tokens = tokens[1:]
        super().observe(tokens, None)
        self._is_first = False

    def _forward(self, tokens: list[int], positions: Tensor, cache: KVCache) -> Tensor:
        if len(tokens) > _FEW:
            self._remember(tokens[:-1], positions[:-1], cache)
            tokens, positions = tokens[-1:], positions[-1:]
        ids, states = self._join(tokens, cache)
        # A chain is a tree, and what attention is quick at; without a mask it would take the rows for a prompt's.
        chain = torch.ones(len(tokens), len(tokens), dtype=torch.bool, device=self.device).tril()
        this_pass = ForwardContext(self.target.lm.backend, tree_mask=chain if len(tokens) > 1 else None)
        out: HeadOutput = self.head(ids, states, positions, cache, this_pass, logits_to_keep=1)
        self._states = out.states[-1:]
        return out.logits

    def _remember(self, tokens: list[int], positions: Tensor, cache: KVCache) -> None:
        ids, states = self._join(tokens, cache)
        self.head.remember(ids, states, positions, cache, ForwardContext(self.target.lm.backend))

    def _join(self, tokens: list[int], cache: KVCache) -> tuple[Tensor, Tensor]:
        """What the head reads of pending tokens, which get rows in `cache`: their ids and the states before them."""
        features = torch.cat(self._features)
        self._features = [features[len(tokens) :].clone()]  # of its own: a view would keep the whole chunk
        cache.reserve(len(tokens))
        fused = self.head.fuse(features[: len(tokens)].to(self.head.fc.weight.dtype))
        return torch.tensor(tokens, device=self.device), fused

    def _expand(self, tokens: Tensor, parents: Tensor, positions: Tensor, this_pass: ForwardContext) -> Tensor:
        cache = self.working.cache
        cache.reserve(len(tokens))
        out: HeadOutput = self.head(tokens, self._states[parents], positions, cache, this_pass)
        self._states = out.states
        return out.logits


def check_fits(head: EagleHead, target: Target) -> None:
    """ModelError unless the head reads this target's states and writes its tokens."""
    config, lm = head.config, target.lm
    hidden = int(lm.config.hidden_size)

    def refuse(what: str, why: str) -> None:
        raise ModelError(what, why=why, fix="use the head that was trained for this target")

    if config.target_hidden != hidden:
        refuse(
            f"the head reads states of {config.target_hidden:,}, the target's have {hidden:,}", "they cannot be joined"
        )
    if not all(0 <= layer <= lm.layers for layer in config.feature_layers):
        refuse(f"the head reads layers {config.feature_layers}", f"the target has {lm.layers}")
    if int(head.vocabulary.max()) >= lm.vocabulary or int(head.vocabulary.min()) < 0:
        refuse("the head's vocabulary goes beyond the target's", f"the target has {lm.vocabulary:,} tokens")
    if head.embedding.num_embeddings < lm.vocabulary:
        refuse(
            f"the head embeds {head.embedding.num_embeddings:,} tokens, the target writes {lm.vocabulary:,}",
            "it was trained for another vocabulary",
        )
