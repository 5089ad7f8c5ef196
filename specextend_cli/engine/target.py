"""The model whose words count: prefill, verification of a tree, and where it looked while it wrote."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import torch
from torch import Tensor

from specextend_cli.engine.attention import Backend, ForwardContext, Queries
from specextend_cli.engine.attribution import segment_attention
from specextend_cli.engine.cache import KVCache
from specextend_cli.engine.lm import LanguageModel, Output
from specextend_cli.engine.tree import DraftTree


class Target:
    """One sequence at a time; `begin` forgets the last one.

    `score_layers` are the layers whose attention `attention_from` averages (negative ones count from the last),
    `look_layers` those of `looks`.
    Prefill and verification run on the model's attention back end unless given their own (to measure what it gains).
    """

    def __init__(
        self,
        lm: LanguageModel,
        *,
        score_layers: Sequence[int] = (-1,),
        look_layers: Sequence[int] = (),
        prefill_backend: Backend | None = None,
        verify_backend: Backend | None = None,
    ) -> None:
        self.lm = lm
        self.prefill_backend = prefill_backend or lm.backend
        self.verify_backend = verify_backend or lm.backend
        asked = (*score_layers, *look_layers)
        if not all(-lm.layers <= layer < lm.layers for layer in asked):
            raise ValueError(f"the model has layers 0 to {lm.layers - 1}, not all of {asked}")
        self.score_layers = frozenset(layer % lm.layers for layer in score_layers)
        self.look_layers = frozenset(layer % lm.layers for layer in look_layers)
        self.cache: KVCache = lm.new_cache(0)
        self._queries: Queries = {}

    @property
    def length(self) -> int:
        """Committed tokens whose keys are in the cache: all of the sequence but its last token."""
        return self.cache.length

    def begin(self, capacity: int) -> None:
        """Start a new sequence with room for `capacity` tokens; memory is kept when it suffices."""
        self.cache.begin(capacity)

    def prefill(self, tokens: Tensor, *, features: Sequence[int] = ()) -> Output:
        """Read the next chunk [n] of the prompt. The logits are those of its last token, [1, vocabulary]."""
        this_pass = ForwardContext(self.prefill_backend, record=self.score_layers | self.look_layers, record_last=True)
        positions = torch.arange(self.length, self.length + len(tokens), device=self.lm.device)
        out = self.lm.forward(tokens, positions, self.cache, this_pass=this_pass, logits_to_keep=1, features=features)
        self.cache.commit()
        self._queries = this_pass.queries
        return out

    def verify(self, tree: DraftTree, *, features: Sequence[int] = (), record: bool = False) -> Output:
        """The target's logits [n, vocabulary] at every node, in one forward, uncommitted.

        `record` keeps queries for `attention_from`; those for `looks` always are.
        """
        mask = None if len(tree) == 1 else tree.mask
        layers = self.score_layers | self.look_layers if record else self.look_layers
        this_pass = ForwardContext(self.verify_backend, tree_mask=mask, record=layers)
        out = self.lm.forward(
            tree.tokens, self.length + tree.depths, self.cache, this_pass=this_pass, features=features
        )
        self._queries = this_pass.queries
        return out

    def keep(self, path: Sequence[int]) -> None:
        """Commit the accepted nodes of the tree just verified, root first."""
        self.cache.keep(path)

    @torch.inference_mode()
    def attention_from(self, path: Sequence[int]) -> Tensor:
        """Where the nodes just kept looked (after prefill: [-1]), averaged over them: [length] float32, summing to 1.

        Of one node, the row that eager attention would show there, mean over heads and over `score_layers` (SpecExtend,
        section 4), but computed after acceptance from that node's query alone: 1/n of the work, and no layer has to
        leave the fast path. The path's last node must be the last committed one.
        """
        return self._attention(self.score_layers, path).mean(0)

    @torch.inference_mode()
    def looks(self, path: Sequence[int], marks: Tensor) -> Tensor:
        """Attention of the nodes just kept (after prefill: [-1]) in the segments between `marks` [m], [nodes, m - 1].

        Of the whole sequence a node sees, mean over heads and over `look_layers`: rows sum to 1 at most.
        """
        return segment_attention(self._attention(self.look_layers, path), marks)

    @torch.inference_mode()
    def attention_in(self, layer: int, path: Sequence[int]) -> Tensor:
        """Where the nodes just kept (after prefill: [-1]) looked in one of the recorded layers, counted from the first.

        [nodes, length] float32, the mean over heads; rows sum to 1.
        """
        first = self.length - len(path)
        queries, scale = self._queries[layer]
        keys = self.cache.buffer[0, layer, :, : self.length]
        grouped = queries[:, path].reshape(keys.shape[0], -1, keys.shape[2])
        # Keys by queries: processors multiply a tall matrix two to four times as fast as a wide one.
        products = torch.matmul(keys, grouped.transpose(1, 2)).transpose(1, 2)
        logits = (products.float() * scale).reshape(-1, len(path), self.length)
        if len(path) > 1:
            own = torch.arange(first, self.length, device=self.lm.device)
            logits[..., first:].masked_fill_(own > own[:, None], -torch.inf)
        return logits.softmax(-1).mean(0)

    def _attention(self, layers: Collection[int], path: Sequence[int]) -> Tensor:
        """The mean of `attention_in` over `layers`."""
        total = torch.zeros(len(path), self.length, device=self.lm.device)
        for layer in sorted(layers):
            total += self.attention_in(layer, path)
        return total / len(layers)
