"""Drafting by an assistant model (Gemma 4): a small one without keys of its own, whose layers attend to the target's.

It joins the embedding of the last token with the target's last hidden state before it, and drafts further by its own
output, at the position of the last token: what it drafted has no keys (transformers'
`SinglePositionMultiTokenCandidateGenerator`), so a level of a tree is a forward of unrelated rows. transformers has the
modules; what is here hands them the target's keys, of which retrieval leaves a working set. In layers with a window it
sees the newest keys, as the target does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from specextend_cli.engine.attention import NAME, Backend, ForwardContext
from specextend_cli.engine.config import Retrieval, TreeShape
from specextend_cli.engine.drafters.base import SuspendableDrafter
from specextend_cli.engine.drafters.opt_tree import grow
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.engine.retrieval import working_set
from specextend_cli.engine.step import Output
from specextend_cli.engine.target import Target
from specextend_cli.engine.tree import DraftTree, root

SHARED_KINDS = ("full_attention", "sliding_attention")
"""Kinds of layers; those of an assistant attend to the keys of the target's last layer of the same kind."""


class Assistant:
    """`model` is transformers', on the target's device; embeddings are the target's.

    `sources` has the target's layer whose keys each kind of layer attends to, `window` the number of positions that a
    sliding one sees. ValueError: the two do not fit.
    """

    def __init__(self, model: PreTrainedModel, target: LanguageModel) -> None:
        parts: Any = model
        self.backend: Backend = target.backend
        self._inner, self._head, self._centroids = parts.model, parts.lm_head, parts.masked_embedding
        self._join, self._project = parts.pre_projection, parts.post_projection
        self._embedding: nn.Module = target.model.get_input_embeddings()
        config = self._inner.config
        self._inner.set_attn_implementation(NAME)
        if (width := int(model.config.backbone_hidden_size)) != int(target.config.hidden_size):
            raise ValueError(f"it reads states of {width:,}, the target's have {int(target.config.hidden_size):,}")
        if int(config.vocab_size) > target.vocabulary:
            raise ValueError(f"it writes {config.vocab_size:,} tokens, the target has {target.vocabulary:,}")
        if (of := self._centroids) is not None:
            order, clusters, chosen = of.token_ordering, of.num_centroids, of.centroid_intermediate_top_k
            if len(order) % clusters or not 0 < chosen <= clusters:
                raise ValueError(f"it chooses {chosen:,} of {clusters:,} clusters of {len(order):,} tokens")
            if not torch.equal(order.sort().values, torch.arange(len(order), device=order.device)):
                raise ValueError("the order of its tokens does not have each of them once")
        self.sources = self._sources(target)
        self.window: int | None = target.windows[self.sources["sliding_attention"]]

    def _sources(self, target: LanguageModel) -> dict[str, int]:
        config, kinds = self._inner.config, getattr(target.config, "layer_types", None) or ()
        found = {kinds[index]: index for index in target.layers_with_keys if kinds and kinds[index] in SHARED_KINDS}
        cache = target.new_cache(0)
        for index, kind in enumerate(config.layer_types):
            if kind not in found:
                raise ValueError(f"its layers attend to those of the kind {kind}, which the target has not")
            *_, heads, _, width = cache.of_layer(found[kind]).shape
            own = int(config.per_layer_config[index].head_dim)
            if own != width or int(config.num_attention_heads) % heads:
                raise ValueError(
                    f"its layers have {config.num_attention_heads} heads of {own} numbers, the target's {heads} "
                    f"of {width}"
                )
        return found

    @torch.inference_mode()
    def __call__(
        self, tokens: Tensor, states: Tensor, position: Tensor, keys: Mapping[str, tuple[Tensor, Tensor]]
    ) -> Output:
        """What follows each of the tokens [w] and the states [w, hidden] before them, at the same `position` [1].

        `keys` are the target's and their values, [1, kv heads, m, d] of each kind of layer, m at least 1. Logits of
        tokens outside the clusters that the assistant chooses are -inf.
        """
        joined = torch.cat((self._embedding(tokens).to(states.dtype), states), -1)
        # Every token sees every key: the last one stands for a tree's only other node.
        every = torch.ones(len(tokens), 1, dtype=torch.bool, device=tokens.device)
        context = ForwardContext(backend=self.backend, tree_mask=every)
        out: Tensor = self._inner(
            inputs_embeds=self._join(joined)[None],
            attention_mask=dict.fromkeys(SHARED_KINDS),
            position_ids=position.expand(1, len(tokens)),
            shared_kv_states=dict(keys),
            use_cache=False,
            logits_to_keep=position,  # no number: transformers 5.23 would cut inputs that an assistant has not
            context=context,
        ).last_hidden_state[0]
        return Output(self._logits(out), state=self._project(out))

    def _logits(self, states: Tensor) -> Tensor:
        """[w, vocabulary]: of all tokens, or of those in the clusters nearest to each state."""
        centroids = self._centroids
        if centroids is None:
            every: Tensor = self._head(states)
            return every
        nearest = centroids.centroids(states).topk(centroids.centroid_intermediate_top_k, -1).indices
        ids = centroids.token_ordering.view(centroids.num_centroids, -1)[nearest].flatten(1)
        logits = torch.matmul(self._head.weight[ids], states[..., None])[..., 0]
        return logits.new_full((len(states), len(self._head.weight)), -torch.inf).scatter_(1, ids, logits)


class AssistantDrafter(SuspendableDrafter):
    """Keys stay at their own positions, whatever `config` says. It reads nothing itself, and stores nothing."""

    name = "assistant"
    reads_prompt = False  # a target may compute less where the newest state is enough

    def __init__(self, assistant: Assistant, target: Target, config: Retrieval) -> None:
        super().__init__((target.lm.layers,), config)
        self.assistant, self.target = assistant, target
        self.begin(0)

    @property
    def is_restricted(self) -> bool:
        """See `Drafter`."""
        return self.retrieves and self.target.length > self.config.size

    def begin(self, capacity: int) -> None:
        """See `Drafter`."""
        super().begin(capacity)
        self._state, self._seen = torch.empty(0), 0
        self._chosen = torch.arange(0, device=self.target.lm.device)  # of the first `_seen` positions

    def observe(self, tokens: Sequence[int], features: Tensor | None, ids: Tensor | None = None) -> None:
        """See `Drafter`."""
        super().observe(tokens, features, ids)
        if features is not None and len(features):
            self._state = features[-1:].clone()

    def visible(self) -> Tensor:
        """See `Drafter`."""
        since = torch.arange(self._seen, self.target.length, device=self._chosen.device)
        return torch.cat((self._chosen, since))

    def retrieve(self, scores: Tensor) -> None:
        """See `Drafter`."""
        self._seen = self.target.length
        self._chosen = working_set(self.config, self._seen, scores, self.target.lm.device)

    def _grown(self, shape: TreeShape) -> DraftTree:
        if not len(self._state):  # it was suspended
            return root(self._last)
        device, keys = self.target.lm.device, self._keys()
        position = torch.full((1,), self.target.length, device=device)
        states = self._state

        def expand(tokens: Tensor, parents: Tensor, depth: int, tree_mask: Tensor) -> Tensor:
            nonlocal states
            out = self.assistant(tokens, states[parents], position, keys)
            assert out.state is not None
            states = out.state
            return out.logits

        last = torch.full_like(position, self._last)
        first = expand(last, torch.zeros_like(last), 0, torch.empty(0))
        return grow(self._last, first, expand, shape)

    def _keys(self) -> dict[str, tuple[Tensor, Tensor]]:
        """What each kind of layer attends to: views, or copies of a working set, [1, kv heads, m, d]."""
        cache, assistant = self.target.cache, self.assistant
        chosen = self.visible() if self.retrieves else None
        found = dict[str, tuple[Tensor, Tensor]]()
        for kind, layer in assistant.sources.items():
            rows = cache.of_layer(layer)[..., : self.target.length, :]
            if kind == "sliding_attention" and assistant.window is not None:
                rows = rows[..., -(assistant.window - 1) :, :]  # the last token, which has no key yet, is one of them
            elif chosen is not None:
                rows = rows.index_select(3, chosen)
            found[kind] = rows[0], rows[1]
        return found
