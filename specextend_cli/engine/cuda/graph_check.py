"""The check at load: by CUDA graphs, models must compute what they compute without, up to rounding.

A graph repeats launches. What a model computes on the host, or keeps from one forward to the next, stays as it was at
the capture; such a model runs, and writes wrong text. The fused forward is tried first, then transformers' layers.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch

from specextend_cli.engine.attention import Backend
from specextend_cli.engine.attention.reference import reference
from specextend_cli.engine.check import results_of, use
from specextend_cli.engine.config import TreeShape
from specextend_cli.engine.cuda.capture import Capture, CaptureFailedError, cuda_graph, turn
from specextend_cli.engine.cuda.draft_graphs import DraftGraphs
from specextend_cli.engine.cuda.fused import FusedBody
from specextend_cli.engine.cuda.graphs import BATCH_BUCKETS, GraphRunner, tree_buckets
from specextend_cli.engine.cuda.stock import StockBody
from specextend_cli.engine.drafters import Drafter, model_drafters
from specextend_cli.engine.drafters.model import ModelDrafter
from specextend_cli.engine.head import EagleHead
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.engine.self_check import NotOursError, compare, some_tokens
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
    with turn(lm.device):
        try:
            nodes = shape.nodes if lm.state_bytes and shape is not None else None  # graphs with states keep more
            batches = tuple(b for b in BATCH_BUCKETS if b // 2 < batch)
            refused |= _use(lm, "the model", lm.backend, capture, nodes, batches)
            for one in model_drafters(drafter) if drafter else ():
                if isinstance(model := one.model, EagleHead):
                    refused |= _use(model, "the draft head", lm.backend, capture)
                elif not one.is_self:
                    refused |= _use(model, "the draft model", model.backend, capture)
                if shape is not None and (why := _use_for_drafts(one, shape, capture)):
                    refused["drafts are grown level by level"] = why
        except CaptureFailedError as error:
            refused["no further CUDA graph is captured"] = str(error)
    return refused


def _use(
    model: LanguageModel | EagleHead,
    name: str,
    backend: Backend,
    capture: Capture,
    nodes: int | None = None,
    batches: Sequence[int] = (),
) -> dict[str, str]:
    """Let a model or a head run by the graphs whose results are its own, fused if they can be; why others are not."""
    refused = dict[str, str]()
    kinds = (f"{name} keeps transformers' layers", f"{name} runs without CUDA graphs")
    trees = tree_buckets(nodes)
    results = partial(results_of, model, nodes=trees, batches=batches)
    if getattr(model.config, "altup_num_inputs", 1) > 1:
        return {kinds[-1]: "it has several hidden states of a token (Gemma 3n)"}
    model.runner = model.stock
    try:
        expected = list(results(reference))
    except torch.OutOfMemoryError as error:
        return {kinds[-1]: f"memory: {error}"}
    for kind, body in zip(kinds, (FusedBody, StockBody), strict=True):

        def graphs(body: Any = body) -> GraphRunner:
            return GraphRunner(model, body(model), capture, trees=trees, batches=batches)

        try:
            use(model, graphs, results, backend, expected)
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
    return str(error) if isinstance(error, NotOursError) else f"{type(error).__name__}: {error}"


def _use_for_drafts(drafter: ModelDrafter, shape: TreeShape, capture: Capture) -> str:
    """Let the drafter's model grow whole trees by graphs, if it runs by graphs; why it does not, if so."""
    runner, lm = drafter.model.runner, drafter.target.lm
    if not isinstance(runner, GraphRunner):
        return ""
    expected = _draft(drafter, shape)
    try:
        runner.drafts = DraftGraphs(drafter, runner.body, shape, capture)
        found = _draft(drafter, shape)
        common = sorted(found.keys() & expected.keys())
        if len(common) < (1 if lm.dtype == torch.float32 else _COMMON) * len(expected):
            raise NotOursError(f"{len(common)} of {len(expected)} nodes are those without")
        ours, theirs = (torch.tensor([[tree[path]] for path in common]) for tree in (found, expected))
        compare(iter([("scores", ours)]), [("scores", theirs)], lm.dtype)
    except Exception as error:  # Triton's errors have no common class
        runner.drafts = None
        return _survived(error, lm.device)
    return ""


def _draft(drafter: ModelDrafter, shape: TreeShape) -> dict[tuple[int, ...], float]:
    """The scores of a draft behind some tokens, by the tokens of each path."""
    target = drafter.target
    lm = target.lm
    tokens = some_tokens(lm.vocabulary, _PROMPT)
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
