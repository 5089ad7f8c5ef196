"""The check at load: by CUDA graphs, models must compute what they compute without, up to rounding.

A graph repeats launches. What a model computes on the host, or keeps from one forward to the next, stays as it was at
the capture; such a model runs, and writes wrong text. The fused forward is tried first, then transformers' layers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import Any, TypeAlias

import torch
from torch import Tensor

from specextend_cli.engine.attention import Backend, ForwardContext
from specextend_cli.engine.attention.batched import batched
from specextend_cli.engine.cache import KVCache
from specextend_cli.engine.config import TreeShape
from specextend_cli.engine.cuda.draft_graphs import PENDING_BUCKETS, DraftGraphs, DraftModel
from specextend_cli.engine.cuda.fused import CannotFuseError, FusedHead, FusedModel
from specextend_cli.engine.cuda.graphs import BATCH_BUCKETS, CAPTURING, Capture, GraphedHead, GraphedModel, cuda_graph
from specextend_cli.engine.cuda.step import MOST_SLOTS, Step
from specextend_cli.engine.cuda.stock import StockHead, StockModel
from specextend_cli.engine.drafters import Drafter, EagleDrafter, LMDrafter, model_drafters
from specextend_cli.engine.drafters.model import ModelDrafter
from specextend_cli.engine.forward import ForwardBackend, ForwardInput
from specextend_cli.engine.head import EagleHead
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.engine.mtp import MtpHead
from specextend_cli.engine.self_check import disagreement, path_by_path
from specextend_cli.engine.target import Target
from specextend_cli.engine.tree import DraftTree, root

_READ = (150, 9)  # tokens before the first trees, and between those and the next: one graph serves both lengths
_PARENTS = (0, 0, 0, 1, 3)
_KEPT = (0, 1, 3)  # a path in it
_DIFFER = 3  # sequences of a batch with states of their own
_WIDEST = 4096  # positions of a window that is checked: keys of larger ones take gigabytes
_COMMON = 0.5  # of a draft's nodes in half precision: rounding may expand another one of two that are nearly equal
_LEVEL = ((1, 0, 1, 0), (0, 1, 0, 1))  # two nodes of a draft's second level over its four slots
Results: TypeAlias = Iterator[tuple[str, Tensor]]


@torch.inference_mode()
def use_checked_graphs(
    target: Target,
    drafter: Drafter | None = None,
    shape: TreeShape | None = None,
    *,
    batch: int = 1,
    capture: Capture = cuda_graph,
) -> dict[str, str]:
    """Let the target and the models that draft for it replay graphs, where their results stay the same.

    All graphs are captured now: for trees of any size, batches of up to `batch` sequences, and whole drafts of `shape`.
    Threads do so one after the other; meanwhile none may decode on the same device, since graphs share memory.
    Returns what does not run as it could, in words, and why.
    """
    lm = target.lm
    batches = tuple(b for b in BATCH_BUCKETS if b // 2 < batch)
    with CAPTURING:
        refused = _use_for_model(lm, "the model", batches, capture, nodes=None if shape is None else shape.nodes)
        for one in model_drafters(drafter) if drafter else ():
            if isinstance(one, EagleDrafter):
                refused |= _use_for_head(one.head, lm.backend, capture)
            elif isinstance(one, LMDrafter) and not one.is_self:
                refused |= _use_for_model(one.lm, "the draft model", (), capture)
            if shape is not None and (why := _use_for_drafts(target, one, shape, capture)):
                refused["drafts are grown level by level"] = why
    return refused


def _use_for_model(
    lm: LanguageModel, name: str, batches: Sequence[int], capture: Capture, *, nodes: int | None = None
) -> dict[str, str]:
    if getattr(lm.config, "altup_num_inputs", 1) > 1:
        return {f"{name} runs without CUDA graphs": "it has several hidden states of a token (Gemma 3n)"}
    steps: list[Callable[[], Step]] = [lambda: FusedModel(lm), lambda: StockModel(lm)]
    graphs = partial(GraphedModel, lm, capture=capture, batches=batches, nodes=nodes)
    return _first_right(lm, name, steps, graphs, lambda: chain(_of_model(lm, batches), _past_windows(lm)))


def _use_for_head(head: EagleHead, backend: Backend, capture: Capture) -> dict[str, str]:
    def fused() -> Step:
        if isinstance(head, MtpHead):
            raise CannotFuseError("a multi-token prediction layer is of its target's own make")
        return FusedHead(head)

    steps: list[Callable[[], Step]] = [fused, lambda: StockHead(head)]
    return _first_right(
        head, "the draft head", steps, partial(GraphedHead, head, capture=capture), lambda: _of_head(head, backend)
    )


def _first_right(
    model: Any,
    name: str,
    steps: Sequence[Callable[[], Step]],
    graphs: Callable[[Step], ForwardBackend[Any]],
    compute: Callable[[], Results],
) -> dict[str, str]:
    """Use the `graphs` of the first step by which `compute` gives what it gives without; why others are not."""
    refused = dict[str, str]()
    kinds = (f"{name} keeps transformers' layers", f"{name} runs without CUDA graphs")
    try:
        expected = list(compute())
    except torch.OutOfMemoryError as error:
        return {kinds[-1]: f"memory: {error}"}
    for kind, make in zip(kinds, steps, strict=True):
        try:
            model.forward_backend = graphs(make())
            why = _difference(compute(), expected)
        except CannotFuseError as error:
            why = str(error)
        except torch.OutOfMemoryError as error:
            model.forward_backend = None
            return refused | {kinds[-1]: f"memory: {error}"}
        except Exception as error:  # Triton's errors have no common class
            why = f"{type(error).__name__}: {error}"
        if not why:
            return refused
        model.forward_backend = None
        refused[kind] = why
    return refused


def _difference(results: Results, expected: Sequence[tuple[str, Tensor]]) -> str:
    """In what they differ; "" if that may be rounding."""
    dtype = next(found.dtype for name, found in expected if name == "keys")  # logits may be in a wider format
    for (name, ours), (_, theirs) in zip(results, expected, strict=True):
        size = disagreement(ours, theirs, dtype)
        if size is not None:
            return f"its {name} differ from those without, by {size:.0%} of their size"
    return ""


def _of_model(lm: LanguageModel, batches: Sequence[int]) -> Results:
    """Logits, states, queries and keys of a token and of a tree, behind two lengths; logits of a batch."""
    cache = lm.new_cache(sum(_READ) + len(_PARENTS))
    ids = torch.linspace(lm.vocabulary / 4, 3 * lm.vocabulary / 4, sum(_READ) + len(_PARENTS)).long()
    features, record = (0, lm.layers), frozenset((lm.keeping[0], lm.keeping[-1]))
    for read in _READ:
        positions = torch.arange(cache.length, cache.length + read, device=lm.device)
        last = ForwardContext(lm.backend, record=record, record_last=True)
        some = ids[cache.length :][:read].to(lm.device)
        yield "logits of a prompt", lm.forward(some, positions, cache, context=last, logits_to_keep=1).logits.clone()
        yield "queries of a prompt", torch.cat([last.queries[layer].queries.flatten() for layer in sorted(record)])
        cache.commit()
        for parents in ((0,), _PARENTS):
            tree = DraftTree(ids[-len(parents) :].tolist(), parents, [1.0] * len(parents))
            if lm.state_bytes and len(tree) > 1:
                yield from _of_states(lm, tree, cache)
                continue
            context = ForwardContext(lm.backend, record=record)
            out = lm.forward_tree(tree, cache.length, cache, context=context, features=features)
            assert out.features is not None
            yield "logits", out.logits.clone()
            yield "states", out.features.clone()
            yield "queries", torch.cat([context.queries[layer].queries.flatten() for layer in sorted(record)])
            rows = [cache.of_layer(layer)[..., cache.start : cache.end, :] for layer in lm.keeping]
            yield "keys", torch.cat([one.flatten() for one in rows])
            cache.rollback()
    length = cache.length
    for b in {min(batches), max(batches)} if batches else ():
        slots = lm.new_cache(length + 2 * _DIFFER + 1, slots=b)
        for number in range(b):
            if not lm.state_bytes:
                cache.rollback(length - 3 * number)
            elif number < _DIFFER:  # there is no way back: a token more
                lm.forward(ids[number : number + 1].to(lm.device), slots.at.new_full((1,), cache.length), cache)
                cache.commit()
            slots.add(cache, number)
        context = ForwardContext(batched, slots.mask())
        some = ids[-b:].to(lm.device)[:, None]
        out_of_batch = lm.run(ForwardInput(some, slots.lengths[:, None], slots, context))
        yield "logits in a batch", out_of_batch.logits[:, 0].clone()


def _of_states(lm: LanguageModel, tree: DraftTree, cache: KVCache) -> Results:
    """Logits of a tree, and of a token behind a path in it; without graphs recurrent layers follow paths alone."""

    def verified(tree: DraftTree) -> Tensor:
        logits = lm.forward_tree(tree, cache.length, cache, context=ForwardContext(lm.backend)).logits.clone()
        cache.rollback()
        return logits

    is_graphed = lm.forward_backend is not None
    yield "logits", verified(tree) if is_graphed else path_by_path(tree, verified)
    kept = tree if is_graphed else tree.subtree(_KEPT)
    lm.forward_tree(kept, cache.length, cache, context=ForwardContext(lm.backend))
    cache.keep(_KEPT if is_graphed else range(len(_KEPT)))
    yield "logits after a tree", verified(root(tree.tokens[0]))


def _past_windows(lm: LanguageModel) -> Results:
    """Logits of a tree behind made-up keys, more of them than windows have: to read so long a text would take long.

    The newest value that a node must not see outweighs all others: one key too many is more than rounding.
    """
    widest = max((window for window in lm.windows if window is not None and window <= _WIDEST), default=0)
    if not widest:
        return
    rows, n = widest + len(_PARENTS), len(_PARENTS)
    cache = lm.new_cache(rows + n)
    cache.reserve(rows)
    for buffer in cache.buffers:
        across = torch.linspace(0.1, 3, buffer.shape[-1], device=lm.device)
        buffer[..., :rows, :].copy_((torch.arange(rows, device=lm.device)[:, None] * across).sin())
        buffer[1, ..., n : 2 * n, :].mul_(rows)
    cache.commit()
    tree = DraftTree(torch.linspace(0, lm.vocabulary - 1, n).long().tolist(), _PARENTS, [1.0] * n)
    out = lm.forward_tree(tree, cache.length, cache, context=ForwardContext(lm.backend))
    yield "logits past its windows", out.logits.clone()


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
                yield "keys", cache.rows(cache.start, cache.end)[0].clone()
            cache.rollback()


def _use_for_drafts(target: Target, drafter: ModelDrafter, shape: TreeShape, capture: Capture) -> str:
    """Let the drafter's model grow whole trees by graphs; why it does not, if so."""
    model, backend = _draft_model(target, drafter)
    if model is None or backend is None:
        return ""
    expected = _draft(target, drafter, shape)
    try:
        scratch = drafter.model.new_cache(max(PENDING_BUCKETS) + MOST_SLOTS)
        backend.drafts = DraftGraphs(model, scratch, shape, capture)
        found = _draft(target, drafter, shape)
        common = sorted(found.keys() & expected.keys())
        if len(common) < (1 if target.lm.dtype == torch.float32 else _COMMON) * len(expected):
            why = f"{len(common)} of {len(expected)} nodes are those without"
        else:
            ours, theirs = (torch.tensor([[tree[path]] for path in common]) for tree in (found, expected))
            size = disagreement(ours, theirs, target.lm.dtype)
            why = "" if size is None else f"its scores differ from those without, by {size:.0%} of their size"
    except Exception as error:  # Triton's errors have no common class
        why = f"{type(error).__name__}: {error}"
    if why:
        backend.drafts = None
    return why


def _draft_model(target: Target, drafter: ModelDrafter) -> tuple[DraftModel | None, GraphedHead | GraphedModel | None]:
    """What a drafter's graphs are made of, and what is to have them; None where its model runs without graphs."""
    if isinstance(drafter, EagleDrafter) and isinstance(drafter.head.forward_backend, GraphedHead):
        head, of_head = drafter.head, drafter.head.forward_backend
        states = head.fc.weight.new_empty(0, head.config.hidden)
        known, most = head.embedding.num_embeddings, len(head.vocabulary)
        width = head.config.fused * head.config.target_hidden
        made = DraftModel(of_head.graphs.step, known, most, drafter.vocabulary, head.fuse, width, states)
        return made, of_head
    if isinstance(drafter, LMDrafter) and isinstance(drafter.lm.forward_backend, GraphedModel):
        lm, of_model = drafter.lm, drafter.lm.forward_backend
        most = min(lm.vocabulary, target.lm.vocabulary)
        return DraftModel(of_model.graphs.step, lm.vocabulary, most, windowed=any(lm.windows)), of_model
    return None, None


def _draft(target: Target, drafter: ModelDrafter, shape: TreeShape) -> dict[tuple[int, ...], float]:
    """The scores of a draft behind some tokens, by the tokens of each path."""
    lm = target.lm
    tokens = torch.linspace(lm.vocabulary / 4, 3 * lm.vocabulary / 4, sum(_READ)).long()
    target.begin(len(tokens) + shape.nodes)
    drafter.begin(len(tokens) + shape.nodes)
    ids = tokens.to(lm.device)
    logits, features = target.prefill(ids, features=drafter.feature_layers)
    drafter.observe(tokens.tolist(), features, ids)
    choice = logits.argmax(-1)
    drafter.observe(choice.tolist(), None, choice)
    tree = drafter.propose(shape)
    paths: list[tuple[int, ...]] = [()]
    for token, parent in zip(tree.tokens[1:], tree.parents[1:], strict=True):
        paths.append((*paths[parent], token))
    return dict(zip(paths, tree.scores, strict=True))
