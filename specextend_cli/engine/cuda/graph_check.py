"""The check at load: by CUDA graphs, models must compute what they compute without, up to rounding.

A graph repeats launches. What a model computes on the host, or keeps from one forward to the next, stays as it was at
the capture; such a model runs, and writes wrong text. The fused forward is tried first, then transformers' layers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch

from specextend_cli.engine.attention import Backend
from specextend_cli.engine.attention.reference import reference
from specextend_cli.engine.check import NotOursError, Results, results_of_head, results_of_model, use
from specextend_cli.engine.config import TreeShape
from specextend_cli.engine.cuda.body import MOST_SLOTS, Body
from specextend_cli.engine.cuda.capture import Capture, CaptureFailedError, cuda_graph, turn
from specextend_cli.engine.cuda.draft_graphs import PENDING_BUCKETS, DraftGraphs, DraftModel
from specextend_cli.engine.cuda.fused import FusedHead, FusedModel
from specextend_cli.engine.cuda.graphs import BATCH_BUCKETS, GraphedHead, GraphedModel, tree_buckets
from specextend_cli.engine.cuda.stock import StockHead, StockModel
from specextend_cli.engine.drafters import Drafter, EagleDrafter, LMDrafter, model_drafters
from specextend_cli.engine.drafters.model import ModelDrafter
from specextend_cli.engine.head import EagleHead
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.engine.self_check import disagreement
from specextend_cli.engine.step import Runner
from specextend_cli.engine.target import Target
from specextend_cli.engine.transfer import check_alive

_PROMPT = 159  # tokens before a draft
_COMMON = 0.5  # of a draft's nodes in half precision: rounding may expand another one of two that are nearly equal


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
    Returns what does not run as it could, in words, and why. After a capture that was broken off no other is tried.
    DeviceError: the GPU has failed.
    """
    lm, refused = target.lm, dict[str, str]()
    batches = tuple(b for b in BATCH_BUCKETS if b // 2 < batch)
    with turn(lm.device):
        try:
            refused |= _use_for_model(lm, "the model", batches, capture, nodes=None if shape is None else shape.nodes)
            for one in model_drafters(drafter) if drafter else ():
                if isinstance(one, EagleDrafter):
                    refused |= _use_for_head(one.head, lm.backend, capture)
                elif isinstance(one, LMDrafter) and not one.is_self:
                    refused |= _use_for_model(one.lm, "the draft model", (), capture)
                if shape is not None and (why := _use_for_drafts(target, one, shape, capture)):
                    refused["drafts are grown level by level"] = why
        except CaptureFailedError as error:
            refused["no further CUDA graph is captured"] = str(error)
    return refused


def _use_for_model(
    lm: LanguageModel, name: str, batches: Sequence[int], capture: Capture, *, nodes: int | None = None
) -> dict[str, str]:
    if getattr(lm.config, "altup_num_inputs", 1) > 1:
        return {f"{name} runs without CUDA graphs": "it has several hidden states of a token (Gemma 3n)"}
    graphs = partial(GraphedModel, lm, capture=capture, batches=batches, nodes=nodes)
    results = partial(results_of_model, lm, nodes=tree_buckets(lm, nodes), batches=batches)
    return _first_right(lm, name, (FusedModel, StockModel), graphs, results, lm.backend)


def _use_for_head(head: EagleHead, backend: Backend, capture: Capture) -> dict[str, str]:
    graphs, results = partial(GraphedHead, head, capture=capture), partial(results_of_head, head)
    return _first_right(head, "the draft head", (FusedHead, StockHead), graphs, results, backend)


def _first_right(
    model: Any,
    name: str,
    bodies: Sequence[Callable[[Any], Body]],
    graphs: Callable[[Body], Runner],
    results: Callable[[Backend], Results],
    backend: Backend,
) -> dict[str, str]:
    """Use the graphs of the first of `bodies` by which `results` are the model's own; why others are not."""
    refused = dict[str, str]()
    kinds = (f"{name} keeps transformers' layers", f"{name} runs without CUDA graphs")
    model.runner = model.stock
    try:
        expected = list(results(reference))
    except torch.OutOfMemoryError as error:
        return {kinds[-1]: f"memory: {error}"}
    for kind, body in zip(kinds, bodies, strict=True):
        try:
            use(model, lambda body=body: graphs(body(model)), results, backend, expected)  # type: ignore[misc]
        except NotOursError as error:  # noqa: PERF203 - there are two
            refused[kind] = str(error)
        except Exception as error:  # Triton's errors have no common class
            why = _survived(error, expected[0][1].device)
            if isinstance(error, torch.OutOfMemoryError):
                return refused | {kinds[-1]: f"memory: {error}"}
            refused[kind] = why
        else:
            break
    return refused


def _survived(error: Exception, device: torch.device) -> str:
    """An error that speaks against graphs, in words. Raises one after which nothing else is to be tried."""
    check_alive(device)
    if isinstance(error, CaptureFailedError):
        raise error
    return f"{type(error).__name__}: {error}"


def _use_for_drafts(target: Target, drafter: ModelDrafter, shape: TreeShape, capture: Capture) -> str:
    """Let the drafter's model grow whole trees by graphs; why it does not, if so."""
    model, runner = _draft_model(target, drafter)
    if model is None or runner is None:
        return ""
    expected = _draft(target, drafter, shape)
    try:
        scratch = drafter.model.new_cache(max(PENDING_BUCKETS) + MOST_SLOTS)
        runner.drafts = DraftGraphs(model, scratch, shape, capture)
        found = _draft(target, drafter, shape)
        common = sorted(found.keys() & expected.keys())
        if len(common) < (1 if target.lm.dtype == torch.float32 else _COMMON) * len(expected):
            why = f"{len(common)} of {len(expected)} nodes are those without"
        else:
            ours, theirs = (torch.tensor([[tree[path]] for path in common]) for tree in (found, expected))
            size = disagreement(ours, theirs, target.lm.dtype)
            why = "" if size is None else f"its scores differ from those without, by {size:.0%} of their size"
    except Exception as error:  # Triton's errors have no common class
        runner.drafts = None
        why = _survived(error, target.lm.device)
    if why:
        runner.drafts = None
    return why


def _draft_model(target: Target, drafter: ModelDrafter) -> tuple[DraftModel | None, GraphedHead | GraphedModel | None]:
    """What a drafter's graphs are made of, and what is to have them; None where its model runs without graphs."""
    if isinstance(drafter, EagleDrafter) and isinstance(drafter.head.runner, GraphedHead):
        head, of_head = drafter.head, drafter.head.runner
        states = head.fc.weight.new_empty(0, head.config.hidden)
        known, most = head.embedding.num_embeddings, len(head.vocabulary)
        width = head.config.fused * head.config.target_hidden
        made = DraftModel(of_head.graphs.body, known, most, drafter.vocabulary, head.fuse, width, states)
        return made, of_head
    if isinstance(drafter, LMDrafter) and isinstance(drafter.lm.runner, GraphedModel):
        lm, of_model = drafter.lm, drafter.lm.runner
        most = min(lm.vocabulary, target.lm.vocabulary)
        return DraftModel(of_model.graphs.body, lm.vocabulary, most, windowed=any(lm.windows)), of_model
    return None, None


def _draft(target: Target, drafter: ModelDrafter, shape: TreeShape) -> dict[tuple[int, ...], float]:
    """The scores of a draft behind some tokens, by the tokens of each path."""
    lm = target.lm
    tokens = torch.linspace(lm.vocabulary / 4, 3 * lm.vocabulary / 4, _PROMPT).long()
    target.begin(len(tokens) + shape.nodes)
    drafter.begin(len(tokens) + shape.nodes)
    ids = tokens.to(lm.device)
    out = target.prefill(ids, features=drafter.feature_layers)
    drafter.observe(tokens.tolist(), out.features, ids)
    choice = out.logits.argmax(-1)
    drafter.observe(choice.tolist(), None, choice)
    tree = drafter.propose(shape)
    paths: list[tuple[int, ...]] = [()]
    for token, parent in zip(tree.tokens[1:], tree.parents[1:], strict=True):
        paths.append((*paths[parent], token))
    return dict(zip(paths, tree.scores, strict=True))
