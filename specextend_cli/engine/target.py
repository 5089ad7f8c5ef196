"""The target model: prefill, verification of a draft tree, and attention read back from its cache."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from specextend_cli.engine.attention import Backend, Queries
from specextend_cli.engine.cache import KVCache
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.engine.step import Output, Step
from specextend_cli.engine.tree import DraftTree


class Target:
    """Holds one sequence at a time; `begin` forgets the last one.

    `attention_from` averages the attention of `score_layers`: layers below 0 count from the last, and one with a
    sliding window stands for the nearest without. The benchmark exchanges the attention back ends of prefill and
    verification.
    """

    def __init__(self, lm: LanguageModel, *, score_layers: Sequence[int] = (-1,)) -> None:
        self.lm = lm
        self.prefill_backend: Backend = lm.backend
        self.verify_backend: Backend = lm.backend
        self.score_layers = frozenset(map(lm.far_seeing, score_layers))
        self.cache: KVCache = lm.new_cache(0)
        self._queries: Queries = {}

    @property
    def length(self) -> int:
        """Committed tokens whose keys are in the cache: all of the sequence but its last token."""
        return self.cache.length

    def follows_trees(self, nodes: int) -> bool:
        """Whether draft trees of so many nodes may branch; else `verify` takes chains."""
        return not self.lm.state_bytes or self.lm.runner.follows_trees(nodes, self.verify_backend)

    def begin(self, capacity: int) -> None:
        """Start a new sequence with room for `capacity` tokens; memory is kept when it suffices."""
        self.cache.begin(capacity)

    def prefill(self, tokens: Tensor, *, features: Sequence[int] = ()) -> Output:
        """Read the next chunk [n] of the prompt. The logits are those of its last token, [1, vocabulary]."""
        out = self.lm.forward(
            tokens,
            torch.arange(self.length, self.length + len(tokens), device=self.lm.device),
            self.cache,
            backend=self.prefill_backend,
            record=self.score_layers,
            record_last=True,
            logits_to_keep=1,
            feature_layers=features,
        )
        self.cache.commit()
        self._queries = out.queries
        return out

    def verify(self, tree: DraftTree, *, features: Sequence[int] = (), record: bool = False) -> Output:
        """The target's logits [n, vocabulary] at every node, in one forward, uncommitted.

        `record` keeps queries for `attention_from`.
        """
        recorded = self.score_layers if record else ()
        asked = {"backend": self.verify_backend, "record": recorded, "feature_layers": features}
        out = self.lm.run(Step.of_tree(tree, self.length, self.cache, **asked))
        self._queries = out.queries
        return out

    def commit(self, path: Sequence[int]) -> slice | Tensor:
        """Commit the accepted nodes of the tree just verified, root first; returns an index of them on the device."""
        return self.cache.commit(path)

    @torch.inference_mode()
    def attention_from(self, node: int) -> Tensor:
        """Mean attention of the last committed node, by its number in the tree (after prefill: -1): [length] float32.

        It sums to 1: the row of eager attention, mean over heads and over `score_layers` (SpecExtend, section 4). It is
        computed after acceptance from that node's query alone: 1/n of the work, with every layer on its fast path.
        """
        return torch.stack([self._attention_in(layer, node) for layer in sorted(self.score_layers)]).mean(0)

    def _attention_in(self, layer: int, node: int) -> Tensor:
        queries, scale, window, softmax = self._queries[layer]
        keys = self.cache.of_layer(layer)[0, 0, :, : self.length]
        grouped = queries[:, node].reshape(keys.shape[0], -1, keys.shape[2])
        # Keys times queries: CPUs multiply a tall matrix two to four times as fast as a wide one.
        products = torch.matmul(keys, grouped.transpose(1, 2)).transpose(1, 2)
        logits = (products.float() * scale).reshape(-1, 1, self.length)
        seen = None
        if window:
            seen = torch.arange(self.length, device=self.lm.device)[None] >= self.length - window
        shares = softmax.weights(logits, seen).mean(0)[0]
        return shares if softmax.sinks is None else shares / shares.sum()
