"""The target model: prefill, verification of a draft tree, and attention read back from its cache."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import torch
from torch import Tensor

from specextend_cli.engine.attention import Backend, ForwardContext, Queries
from specextend_cli.engine.attribution import segment_attention
from specextend_cli.engine.cache import KVCache
from specextend_cli.engine.lm import LanguageModel, Output
from specextend_cli.engine.transfer import upload
from specextend_cli.engine.tree import DraftTree


class Target:
    """Holds one sequence at a time; `begin` forgets the last one.

    `attention_from` averages the attention of `score_layers`, `segment_attention` that of `attribution_layers`; layers
    below 0 count from the last, and one with a sliding window stands for the nearest without. ValueError for layers
    that the model does not have. The benchmark exchanges the attention back ends of prefill and verification.
    """

    def __init__(
        self,
        lm: LanguageModel,
        *,
        score_layers: Sequence[int] = (-1,),
        attribution_layers: Sequence[int] = (),
    ) -> None:
        self.lm = lm
        self.prefill_backend: Backend = lm.backend
        self.verify_backend: Backend = lm.backend
        asked = (*score_layers, *attribution_layers)
        if not all(-lm.layers <= layer < lm.layers for layer in asked):
            raise ValueError(f"the model has layers 0 to {lm.layers - 1}, not all of {asked}")
        self.score_layers = frozenset(map(lm.far_seeing, score_layers))
        self.attribution_layers = frozenset(map(lm.far_seeing, attribution_layers))
        self.cache: KVCache = lm.new_cache(0)
        self._queries: Queries = {}
        self._kept: tuple[Sequence[int], slice | Tensor] = (), slice(0)

    @property
    def length(self) -> int:
        """Committed tokens whose keys are in the cache: all of the sequence but its last token."""
        return self.cache.length

    def begin(self, capacity: int) -> None:
        """Start a new sequence with room for `capacity` tokens; memory is kept when it suffices."""
        self.cache.begin(capacity)

    def prefill(self, tokens: Tensor, *, features: Sequence[int] = ()) -> Output:
        """Read the next chunk [n] of the prompt. The logits are those of its last token, [1, vocabulary]."""
        layers = self.score_layers | self.attribution_layers
        context = ForwardContext(self.prefill_backend, record=layers, record_last=True)
        positions = torch.arange(self.length, self.length + len(tokens), device=self.lm.device)
        out = self.lm.forward(tokens, positions, self.cache, context=context, logits_to_keep=1, features=features)
        self.cache.commit()
        self._queries = context.queries
        return out

    def verify(self, tree: DraftTree, *, features: Sequence[int] = (), record: bool = False) -> Output:
        """The target's logits [n, vocabulary] at every node, in one forward, uncommitted.

        `record` keeps queries for `attention_from`; those for `segment_attention` always are.
        """
        layers = self.score_layers | self.attribution_layers if record else self.attribution_layers
        context = ForwardContext(self.verify_backend, record=layers)
        out = self.lm.forward_tree(tree, self.length, self.cache, context=context, features=features)
        self._queries = context.queries
        return out

    def keep(self, path: Sequence[int]) -> slice | Tensor:
        """Commit the accepted nodes of the tree just verified, root first; returns an index of them on the device."""
        self._kept = path, self.cache.keep(path)
        return self._kept[1]

    @torch.inference_mode()
    def attention_from(self, path: Sequence[int]) -> Tensor:
        """Mean attention of the nodes just kept (after prefill: [-1]): [length] float32, summing to 1.

        For one node, the row of eager attention, mean over heads and over `score_layers` (SpecExtend, section 4). It is
        computed after acceptance from that node's query alone: 1/n of the work, with every layer on its fast path. The
        path's last node must be the last committed one.
        """
        return self._attention(self.score_layers, path).mean(0)

    @torch.inference_mode()
    def segment_attention(self, path: Sequence[int], segment_starts: Tensor) -> Tensor:
        """Attention of the nodes just kept (after prefill: [-1]) by segment: [nodes, m - 1].

        `segment_starts` [m] are ascending positions. Mean over heads and over `attribution_layers`; a row sums to 1
        over the whole sequence, so to 1 at most over the segments.
        """
        return segment_attention(self._attention(self.attribution_layers, path), segment_starts)

    @torch.inference_mode()
    def attention_in(self, layer: int, path: Sequence[int]) -> Tensor:
        """Attention [nodes, length] float32 of the nodes just kept (after prefill: [-1]) in one recorded layer.

        Mean over heads; rows sum to 1. `layer` counts from the first.
        """
        first = self.length - len(path)
        queries, scale, window, softmax = self._queries[layer]
        keys = self.cache.keys(layer)
        # Neither a slice nor the index of what was kept is an upload.
        one = slice(path[0], path[0] + 1 or None)
        at = one if len(path) == 1 else self._kept[1] if path == self._kept[0] else upload(path, self.lm.device)
        grouped = queries[:, at].reshape(keys.shape[0], -1, keys.shape[2])
        # Keys times queries: CPUs multiply a tall matrix two to four times as fast as a wide one.
        products = torch.matmul(keys, grouped.transpose(1, 2)).transpose(1, 2)
        logits = (products.float() * scale).reshape(-1, len(path), self.length)
        seen = None
        if len(path) > 1 or window:
            every = torch.arange(self.length, device=self.lm.device)
            behind = every[first:, None] - every
            seen = (behind >= 0) & (behind < (window or self.length))
        shares = softmax.weights(logits, seen).mean(0)
        return shares if softmax.sinks is None else shares / shares.sum(-1, keepdim=True)

    def _attention(self, layers: Collection[int], path: Sequence[int]) -> Tensor:
        """The mean of `attention_in` over `layers`."""
        total = torch.zeros(len(path), self.length, device=self.lm.device)
        for layer in sorted(layers):
            total += self.attention_in(layer, path)
        return total / len(layers)
