"""RAPID's retrieval (arXiv 2502.20330) with our parts: the working set is chosen by text, not by attention.

Chunks of the document are ranked by BM25 against the newest tokens; everything else is as in `specextend`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from math import log
from typing import Any, cast

import torch
from torch import Tensor

from specextend_cli.bench.models import Models, Recipe
from specextend_cli.engine.config import Retrieval
from specextend_cli.engine.drafters import Drafter
from specextend_cli.engine.retrieval import Chunks

_QUERY = 64  # newest tokens that chunks are compared with
_K1, _B = 1.2, 0.75


def recipe(models: Models) -> Recipe:
    """The preset's draft and tree, behind the gate, as `specextend` has them."""
    retrieval = models.under("retrieval")
    return Recipe(
        lambda target: cast("Drafter", ByText(models.drafter(models.draft, target, retrieval), retrieval)),
        retrieval,
        models.shape,
        gate=True,
    )


class ByText:
    """A drafter whose working set is the chunks most similar to the newest tokens."""

    def __init__(self, inner: Drafter, config: Retrieval) -> None:
        self.inner = inner
        self.config = config
        self.name = f"{inner.name} by text"
        self.feature_layers = inner.feature_layers
        self._tokens: list[int] = []
        self._chunks = Chunks(config)

    def __getattr__(self, name: str) -> Any:
        """Everything else is the inner drafter's."""
        return getattr(self.inner, name)

    def begin(self, capacity: int) -> None:
        """See `Drafter`."""
        self._tokens = []
        self._chunks = Chunks(self.config)
        self.inner.begin(capacity)

    def observe(self, tokens: Sequence[int], features: Tensor | None) -> None:
        """See `Drafter`."""
        self._tokens.extend(tokens)
        self._chunks.add(tokens)
        self.inner.observe(tokens, features)

    def retrieve(self, scores: Tensor) -> None:
        """Every position gets its chunk's BM25; the target's own scores are ignored."""
        starts = self._chunks.starts(len(scores)).tolist()
        cut = list(pairwise((*starts, len(scores))))
        ranked = bm25([self._tokens[start:end] for start, end in cut], self._tokens[-_QUERY:])
        sizes = torch.tensor([end - start for start, end in cut], device=scores.device)
        self.inner.retrieve(torch.tensor(ranked, device=scores.device).repeat_interleave(sizes))


def bm25(chunks: Sequence[Sequence[int]], query: Sequence[int]) -> list[float]:
    """The Okapi BM25 score of each chunk for the distinct tokens of `query`."""
    counts = [Counter(chunk) for chunk in chunks]
    mean = sum(map(len, chunks)) / max(len(chunks), 1)
    scores = [0.0] * len(chunks)
    for token in set(query):
        having = sum(token in count for count in counts)
        weight = log(1 + (len(chunks) - having + 0.5) / (having + 0.5))
        for i, count in enumerate(counts):
            if often := count.get(token, 0):
                scores[i] += weight * often * (_K1 + 1) / (often + _K1 * (1 - _B + _B * len(chunks[i]) / mean))
    return scores
