"""The check at load of what computes a model in its modules' place: a runner, and the attention that it calls.

Its results are compared with those of the model's own modules under the plainest attention (`attention/reference.py`):
behind a short text, and behind made-up keys of a long one, with the root of a tree at a high position. Some faults show
nowhere else: a softmax's parts that are merged wrongly, an address that is too small, an angle that half precision
rounds, a window.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from specextend_cli.engine.attention.function import Backend
from specextend_cli.engine.attention.hybrid import hybrid
from specextend_cli.engine.attention.reference import reference
from specextend_cli.engine.cache import KVCache
from specextend_cli.engine.head import EagleHead
from specextend_cli.engine.lm import LanguageModel, UnsupportedModelError
from specextend_cli.engine.packed import full_weights
from specextend_cli.engine.self_check import PARENTS, Results, compare, path_by_path, some_tokens
from specextend_cli.engine.self_check import NotOursError as NotOursError
from specextend_cli.engine.step import Output, Runner, Step
from specextend_cli.engine.tree import DraftTree, root

_SHORT = (150, 9)  # tokens of a prompt's two pieces: one graph serves trees behind either
_LAST = 9  # tokens of a prompt whose logits are compared: half precision moves single rows of some models far
_LONG = 8192  # made-up keys
_FAR = 30_000  # position of a tree's root behind them, as far as the model has positions
_KEPT = (0, 1, 3)  # a path in it
_DIFFER = 3  # sequences of a batch with states of their own


def use(
    model: Any,
    make: Callable[[], Runner],
    results: Callable[[Backend], Results],
    backend: Backend,
    expected: Sequence[tuple[str, Tensor]],
    dtype: torch.dtype | None = None,
) -> None:
    """Let `model` run by what `make` makes, if its `results` by `backend` are the `expected` ones.

    NotOursError where they differ by more than rounding to `dtype`, by default the model's; then, and after any error
    of `make`, its own modules run it.
    """

    def otherwise() -> Results:
        model.runner = model.stock
        with full_weights(model.model if hasattr(model, "model") else model):
            yield from results(hybrid)

    try:
        model.runner = runner = make()
        compare(results(backend), expected, dtype, otherwise)
        model.runner = runner
    except BaseException:
        model.runner = model.stock
        raise


@torch.inference_mode()
def check_long(lm: LanguageModel) -> None:
    """UnsupportedModelError where few layers attend otherwise behind a long text than by the plainest attention."""
    if lm.backend is reference:
        return
    try:
        with lm.few_layers():
            compare(results_of(lm, lm.backend), list(results_of(lm, reference)))
    except NotOursError as error:
        raise UnsupportedModelError(lm.model, f"{error}, by attention {lm.attention}") from error


def results_of(
    model: LanguageModel | EagleHead, backend: Backend, *, nodes: Sequence[int] = (), batches: Sequence[int] = ()
) -> Results:
    """Logits, states, queries and keys of prompts, of a tree and of trees of so many `nodes`, and logits of batches.

    Of a head, without prompts and batches.
    """
    cache = model.new_cache(_LONG + 64)
    device, length = cache.device, sum(_SHORT) + len(PARENTS)
    asked: dict[str, Any] = {"backend": backend}
    if isinstance(model, EagleHead):
        config, layers, vocabulary = model.llama, [*range(model.config.layers)], model.embedding.num_embeddings
        states = torch.randn(length, model.config.hidden, generator=torch.Generator().manual_seed(0))
        states = states.to(device, cache.dtype)
    else:
        config, layers, vocabulary = model.config, model.layers_with_keys, model.vocabulary
        asked |= {"record": {layers[0], layers[-1]}, "feature_layers": (0, model.layers)}
    ids = some_tokens(vocabulary, length).to(device)

    def tree(parents: Sequence[int], position: int) -> Results:
        made = DraftTree(ids[-len(parents) :].tolist(), parents, [1.0] * len(parents))
        if isinstance(model, EagleHead):  # its root, then the others: drafts grow level by level
            for rows in (slice(0, 1), slice(1, len(made)))[: len(made)]:
                tokens, depths, mask = made.on(device)
                at, seen = position + depths[rows], mask[rows, : rows.stop]
                yield from run(Step(tokens[rows], at, cache, tree_mask=seen, states=states[rows], **asked))
        elif model.state_bytes and not made.is_chain:
            yield from _of_states(model, made, cache, backend)
        else:
            yield from run(Step.of_tree(made, position, cache, **asked))
        cache.rollback()

    def run(step: Step) -> Results:
        out = model.run(step)
        state = out.features if out.state is None else out.state
        assert state is not None
        yield "logits", _centred(out.logits)
        yield "states", state.clone()
        yield from _queries(out)
        for layer in layers:
            yield "keys", cache.of_layer(layer)[..., cache.start : cache.end, :].flatten(0, -2).clone()

    parents: Sequence[int]
    for read in _SHORT:
        positions = torch.arange(cache.length, cache.length + read, device=device)
        if isinstance(model, EagleHead):
            model.remember(Step(ids[positions], positions, cache, states=states[positions], **asked))
        else:
            last = model.forward(ids[positions], positions, cache, logits_to_keep=_LAST, record_last=True, **asked)
            yield "logits of a prompt", _centred(last.logits)
            yield from _queries(last)
        cache.commit()
        for parents in ((0,), PARENTS):
            yield from tree(parents, cache.length)
    if isinstance(model, LanguageModel):
        yield from _of_batches(model, cache, ids, batches)
    make_up(cache, getattr(model, "windows", ()))
    far = min(_FAR, getattr(config, "max_position_embeddings", _FAR) - max(nodes, default=0) - len(PARENTS))
    for parents in ((0,), PARENTS, *map(_bushy, nodes)):
        for name, found in tree(parents, far):
            yield name if name == "keys" else f"{name} of {len(parents)} nodes behind a long text", found
    if isinstance(model, LanguageModel) and device.type != "cpu":  # where two such texts may take a tenth of the memory
        yield from _of_batches(model, cache, ids, batches[-1:])
    cache.buffers.clear()  # now: a cache and its layers hold each other


def _centred(logits: Tensor) -> Tensor:
    """Without what all of a row have in common, which says nothing. A copy: they may lie in a graph's memory."""
    return logits.float() - logits.float().mean(-1, keepdim=True)


def _queries(out: Output) -> Results:
    """Of every recorded layer, a row for each head and position."""
    for layer in sorted(out.queries):
        yield "queries", out.queries[layer].queries.flatten(0, 1)


def _bushy(nodes: int) -> list[int]:
    """The parents of a tree of which half of the nodes have two children."""
    return [max(node - 1, 0) // 2 for node in range(nodes)]


def make_up(cache: KVCache, windows: Iterable[int | None] = ()) -> None:
    """Commit keys and values that nobody computed, up to `_LONG` rows: to read a text takes long.

    The first layers' and heads' keys are small, so that attention is wide and depends on how its parts are merged; the
    last ones' large, so that it depends on angles. Values drift from the first row to the last; where windows end, one
    that nodes of some depths must not see outweighs all others.
    """
    start, rows = cache.length, _LONG - cache.length
    cache.reserve(rows)
    at = torch.arange(rows, device=cache.device)[:, None]
    for made in cache.rows(start, _LONG):
        layers, _, heads, _, width = made.shape[1:]
        across = torch.linspace(0.1, 3, width, device=cache.device)
        each = torch.linspace(1, 4, layers * heads, device=cache.device).reshape(layers, 1, heads, 1, 1).to(cache.dtype)
        waves = at * across
        drifting = 2 * (at / rows * (1 + 3 * across)).sin() + waves.cos()
        torch.mul(each, waves.sin().to(cache.dtype), out=made[0])
        torch.mul(each, drifting.to(cache.dtype), out=made[1])
        for window in {size for size in windows if size is not None and size < rows}:
            end = rows - window + max(PARENTS)
            made[1, ..., end - 2 * len(PARENTS) : end, :].mul_(window)
    cache.commit()


def _of_batches(lm: LanguageModel, cache: KVCache, ids: Tensor, batches: Sequence[int]) -> Results:
    """Logits of so many sequences, the longest what the cache has."""
    length = cache.length
    for b in batches:
        slots = lm.new_cache(length + 2 * _DIFFER + 1, slots=b)
        for number in range(b):
            if not lm.state_bytes:
                cache.rollback(length - 3 * number)
            elif number < _DIFFER:  # there is no way back: a token more
                lm.forward(ids[number : number + 1], slots.at.new_full((1,), cache.length), cache)
                cache.commit()
            slots.add(cache)
        some = ids[-b:]
        yield "logits in a batch", _centred(lm.run(Step(some, slots.lengths, slots, sequences=b)).logits)
        slots.buffers.clear()
        if not lm.state_bytes:  # the rows are still there
            cache.length = cache.start = cache.end = length


def _of_states(lm: LanguageModel, tree: DraftTree, cache: KVCache, backend: Backend) -> Results:
    """Logits of a tree, and of a token behind a path in it; without graphs recurrent layers follow paths alone."""

    def verified(tree: DraftTree) -> Tensor:
        logits = _centred(lm.run(Step.of_tree(tree, cache.length, cache, backend=backend)).logits)
        cache.rollback()
        return logits

    is_graphed = lm.runner is not lm.stock
    yield "logits", verified(tree) if is_graphed else path_by_path(tree, verified)
    kept = tree if is_graphed else tree.subtree(_KEPT)
    lm.run(Step.of_tree(kept, cache.length, cache, backend=backend))
    cache.commit(_KEPT if is_graphed else range(len(_KEPT)))
    yield "logits after a tree", verified(root(tree.tokens[0]))
