"""Sliding windows, capped scores and sinks, by every back end, against masks and softmaxes that are written out."""

from __future__ import annotations

from importlib import import_module
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor

from specextend_cli.engine.attention.function import Backend, ForwardContext, attend
from specextend_cli.engine.attention.hybrid import hybrid
from specextend_cli.engine.attention.reference import reference
from specextend_cli.engine.attention.softmax import PLAIN, SoftmaxOptions
from specextend_cli.engine.attention.split_kv import split_kv
from tests.helpers.attention_inputs import inputs, random_tree_mask
from tests.helpers.grid import but_for

BACKENDS = {"reference": reference, "torch": hybrid, "split": split_kv}
HEADS, KV_HEADS, D = 14, 2, 24
OPTIONS = {
    "plain": PLAIN,
    "capped": SoftmaxOptions(0.7),
    "sinks": SoftmaxOptions(None, torch.linspace(-4, 4, HEADS)),
    "both": SoftmaxOptions(0.7, torch.linspace(-4, 4, HEADS)),
}


def written_out(q: Tensor, k: Tensor, v: Tensor, seen: Tensor, options: SoftmaxOptions) -> Tensor:
    """As transformers' eager attention computes it: the sinks are one more column, which is dropped."""
    groups = q.shape[1] // k.shape[1]
    scores = q @ k.repeat_interleave(groups, 1).transpose(2, 3) * 0.2
    if options.softcap:
        scores = options.softcap * torch.tanh(scores / options.softcap)
    scores = scores.masked_fill(~seen, -torch.inf)
    if options.sinks is not None:
        scores = torch.cat((scores, options.sinks[None, :, None, None].expand(*scores.shape[:3], 1)), -1)
    return scores.softmax(-1)[..., : k.shape[2]] @ v.repeat_interleave(groups, 1)


def attended(context: ForwardContext, q: Tensor, k: Tensor, v: Tensor, window: int | None, options: SoftmaxOptions):
    module = SimpleNamespace(layer_idx=0)
    extras = {"sliding_window": window, "softcap": options.softcap, "s_aux": options.sinks}
    return attend(module, q, k, v, None, scaling=0.2, context=context, **extras)[0].transpose(1, 2)


def positions_and_tree(n: int, prefix: int, tree: Tensor | None, at: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """Positions of keys and of queries, and which keys are seen without a window."""
    own = torch.ones(n, n, dtype=torch.bool).tril() if tree is None else tree
    before = torch.arange(prefix) if at is None else at
    depths = own.sum(1) - 1
    root = int(before[-1]) + 1 if prefix else 0
    return torch.cat((before, root + depths)), root + depths, torch.cat((torch.ones(n, prefix).bool(), own), 1)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("window", but_for((None, 1, 16, 600), (None, 1, 2, 5, 16, 600, 2000)))
def test_prompts_and_trees(monkeypatch: pytest.MonkeyPatch, backend: str, options: str, window: int | None) -> None:
    module = import_module("specextend_cli.engine.attention.hybrid")
    monkeypatch.setattr(module, "_SCORES", HEADS * 700 * 100)  # so that capped scores are computed in blocks
    for n, prefix, in_tree in ((1, 0, False), (1, 700, False), (300, 0, False), (300, 350, False), (12, 90, True)):
        q, k, v = inputs(HEADS, KV_HEADS, n, prefix + n, D, torch.float32)
        tree = random_tree_mask(n) if in_tree else None
        of_keys, of_queries, seen = positions_and_tree(n, prefix, tree, None)
        if window:
            seen = seen & (of_queries[:, None] - of_keys < window)
        out = attended(ForwardContext(BACKENDS[backend], tree), q, k, v, window, OPTIONS[options])
        expected = written_out(q, k, v, seen, OPTIONS[options])
        assert (out - expected).abs().max() < 4e-6, (n, prefix)


@pytest.mark.parametrize("in_tree", [False, True])
def test_in_a_working_set_positions_decide(in_tree: bool) -> None:
    """Of 40 rows the first 30 lie here and there; a window counts positions, not rows."""
    at = torch.randperm(500, generator=torch.Generator().manual_seed(1))[:30].sort().values
    before = torch.cat((at, at[-1] + 1 + torch.arange(10)))
    q, k, v = inputs(HEADS, KV_HEADS, 9, 49, D, torch.float32)
    tree = random_tree_mask(9) if in_tree else None
    of_keys, of_queries, seen = positions_and_tree(9, 40, tree, before)
    for window in (3, 40, 200, 1000):
        context = ForwardContext(split_kv, tree, key_positions=at)
        out = attended(context, q, k, v, window, PLAIN)
        narrow = seen & (of_queries[:, None] - of_keys < window)
        assert (out - written_out(q, k, v, narrow, PLAIN)).abs().max() < 4e-6


def test_masks_are_small_and_made_once() -> None:
    sizes: list[int] = []

    def spy(q: Tensor, k: Tensor, v: Tensor, scale: float, tree_mask: Tensor | None, softmax=PLAIN) -> Tensor:
        sizes.append(0 if tree_mask is None else tree_mask.numel())
        return reference(q, k, v, scale, tree_mask, softmax)

    backend: Backend = spy
    context = ForwardContext(backend)
    q, k, v = inputs(HEADS, KV_HEADS, 1000, 3000, D, torch.float32)
    for _ in range(2):
        attended(context, q, k, v, 64, PLAIN)
    assert len(sizes) == 2 * 4
    assert max(sizes) <= 256 * (64 + 256)
    assert len(context.blocks) == 1
