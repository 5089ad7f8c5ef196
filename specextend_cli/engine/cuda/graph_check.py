"""The check at load: by CUDA graphs, models must compute what they compute without, up to rounding.

A graph repeats launches. What a model computes on the host, or keeps from one forward to the next, stays as it was at
the capture; such a model runs, and writes wrong text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import torch
from torch import Tensor

from specextend_cli.engine.attention import Backend, ForwardContext
from specextend_cli.engine.cuda.graphs import Capture, GraphedHead, GraphedModel, cuda_graph, use_graphs
from specextend_cli.engine.head import EagleHead
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.engine.self_check import disagreement
from specextend_cli.engine.tree import DraftTree

_READ = (70, 9)  # tokens before the first trees, and between those and the next: one graph serves both lengths
_PARENTS = (0, 0, 0, 1, 3)
_LEVEL = ((1, 0, 1, 0), (0, 1, 0, 1))  # two nodes of a draft's second level over its four slots
Results: TypeAlias = Iterator[tuple[str, Tensor]]


@torch.inference_mode()
def use_checked_graphs(
    lm: LanguageModel, heads: Sequence[EagleHead] = (), *, capture: Capture = cuda_graph
) -> dict[str, str]:
    """`use_graphs` for each model whose results stay the same; the others, named, and why they run without."""
    use_graphs(lm, heads, capture=capture)
    refused = {}
    if why := _difference(lm, lambda: _of_model(lm)):
        refused["the model"] = why
    for head in heads:
        if why := _difference(head, lambda head=head: _of_head(head, lm.backend)):  # type: ignore[misc]
            refused["the draft head"] = why
    return refused


def _difference(owner: LanguageModel | EagleHead, compute: Callable[[], Results]) -> str | None:
    """Why the owner's graphs, which are dropped then, cannot be used; None if they can."""
    graphed, owner.forward_backend = owner.forward_backend, None
    if not isinstance(graphed, GraphedModel | GraphedHead):
        return None
    why = None
    try:
        expected = list(compute())
        owner.forward_backend = graphed
        for (name, ours), (_, theirs) in zip(compute(), expected, strict=True):
            size = disagreement(ours, theirs)
            if size is not None:
                why = f"its {name} differ from those without, by {size:.0%} of their size"
                break
        why = graphed.graphs.failure or why
    except Exception as error:  # Triton's errors have no common class
        why = graphed.graphs.failure or f"{type(error).__name__}: {error}"
    if why:
        owner.forward_backend = None
    return why


def _of_model(lm: LanguageModel) -> Results:
    """Logits, states, queries and keys of a token and of a tree, behind two lengths."""
    cache = lm.new_cache(sum(_READ) + len(_PARENTS))
    ids = torch.linspace(lm.vocabulary / 4, 3 * lm.vocabulary / 4, sum(_READ) + len(_PARENTS)).long()
    features, record = (0, lm.layers), frozenset((0, lm.layers - 1))
    for read in _READ:
        positions = torch.arange(cache.length, cache.length + read, device=lm.device)
        lm.forward(ids[cache.length :][:read].to(lm.device), positions, cache, logits_to_keep=1)
        cache.commit()
        for parents in ((0,), _PARENTS):
            tree = DraftTree(ids[-len(parents) :].tolist(), parents, [1.0] * len(parents))
            nodes = tree.on(lm.device)
            context = ForwardContext(lm.backend, nodes.mask if len(parents) > 1 else None, record)
            out = lm.forward(nodes.tokens, cache.length + nodes.depths, cache, context=context, features=features)
            assert out.features is not None
            yield "logits", out.logits.clone()
            yield "states", out.features.clone()
            yield "queries", torch.cat([context.queries[layer][0] for layer in sorted(record)])
            yield "keys", cache.rows(cache.start, cache.end).clone()
            cache.rollback()


def _of_head(head: EagleHead, backend: Backend) -> Results:
    """The same of a head; its trees grow level by level."""
    weight = head.fc.weight
    cache = head.new_cache(sum(_READ) + 4)
    device, generator = weight.device, torch.Generator().manual_seed(0)
    ids = torch.linspace(0, head.embedding.num_embeddings - 1, sum(_READ)).long().to(device)
    states = torch.randn(sum(_READ), head.config.hidden, generator=generator).to(device, weight.dtype)
    level = torch.tensor(_LEVEL, dtype=torch.bool, device=device)
    for read in _READ:
        rows = torch.arange(cache.length, cache.length + read, device=device)
        cache.reserve(read)
        head.remember(ids[rows], states[rows], rows, cache, ForwardContext(backend))
        cache.commit()
        for masks in ((None,), (level[:, 2:], level)):
            for depth, mask in enumerate(masks):
                n = 1 if mask is None else len(mask)
                cache.reserve(n)
                at = torch.full((n,), cache.length + depth, device=device)
                out = head(ids[:n], states[:n], at, cache, ForwardContext(backend, mask))
                yield "logits", out.logits.clone()
                yield "states", out.states.clone()
                yield "keys", cache.rows(cache.start, cache.end).clone()
            cache.rollback()
