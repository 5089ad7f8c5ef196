"""Captured forwards write the same tokens. Here what is captured is called again, as a graph would be replayed."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from specextend_cli.engine.attention import ForwardContext
from specextend_cli.engine.attention.reference import reference
from specextend_cli.engine.attention.softmax import SoftmaxOptions
from specextend_cli.engine.attention.triton_tree import triton_tree
from specextend_cli.engine.config import TreeShape
from specextend_cli.engine.cuda import graphs
from specextend_cli.engine.cuda.graphs import BUCKETS, drop_graphs, use_graphs
from specextend_cli.engine.drafters import BlendDrafter, EagleDrafter, NgramDrafter
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.engine.target import Target
from specextend_cli.engine.tree import DraftTree
from tests.engine.test_triton import interpreted
from tests.engine.tiny_heads import tiny_head
from tests.engine.tiny_models import by_generate, generate, prompt, tiny
from tests.helpers.decoding import DRAFTERS, NEW, POLICIES, run, small
from tests.helpers.grid import grid

LONG = prompt(150)
SHAPE = TreeShape(nodes=12, depth=4, width=3, threshold=0.0)


@dataclass
class Taken:
    """A `Capture` without CUDA; what is computed again goes where the first result lies, as in a graph."""

    captures: int = 0
    replays: int = 0

    def __call__(self, body: Callable[[], Any], device: torch.device) -> tuple[Any, Callable[[], None]]:
        self.captures += 1
        first = body()

        def replay() -> None:
            self.replays += 1
            for old, new in zip(tensors(first), tensors(body()), strict=True):
                old.copy_(new)

        for tensor in tensors(first):
            tensor.fill_(torch.nan)  # a graph computes nothing while it is captured
        return first, replay


def tensors(captured: tuple[Any, ForwardContext]) -> list[Tensor]:
    out, context = captured
    return [leaf for leaf in tree_leaves((out, context.queries)) if isinstance(leaf, Tensor)]


@pytest.fixture
def kernels_of_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reference in place of Triton's kernels, which the interpreter runs too slowly for every drafter."""

    def attend(
        q: Tensor, k: Tensor, v: Tensor, scale: float, *, words: Any, tree: int, length: Tensor, softmax: SoftmaxOptions
    ) -> Tensor:
        end = int(length)
        return reference(q, k[:, :, :end], v[:, :, :end], scale, words, softmax)

    monkeypatch.setattr(graphs, "attend", attend)
    monkeypatch.setattr(graphs, "pack", Tensor.clone)


@dataclass
class Captured:
    """A model that replays; `asked` has the tokens of every forward that went to the model itself."""

    lm: LanguageModel
    taken: Taken
    asked: list[int]


@pytest.fixture
def captured(kernels_of_torch: None) -> Iterator[Captured]:
    lm, taken = LanguageModel(tiny(), backend="triton"), Taken()
    stock, asked = lm.model.forward, []

    def counting(**given: Any) -> Any:
        asked.append(given["input_ids"].shape[1])
        return stock(**given)

    lm.model.forward = counting
    use_graphs(lm, capture=taken)
    yield Captured(lm, taken, asked)
    drop_graphs(lm)


@grid(drafter=DRAFTERS, policy=POLICIES)
def test_every_drafter_and_policy(captured: Captured, drafter: str, policy: str) -> None:
    target, retrieval = Target(captured.lm), small(policy)
    assert run(target, DRAFTERS[drafter](target, retrieval), LONG, retrieval, shape=SHAPE)[0] == by_generate(NEW)
    assert captured.taken.replays > captured.taken.captures > 0


@pytest.mark.parametrize("name", ["gemma3", "mistral-window"])
def test_models_with_windows_run_themselves(kernels_of_torch: None, name: str) -> None:
    lm, taken = LanguageModel(tiny(name), backend="triton"), Taken()
    use_graphs(lm, capture=taken)
    target, retrieval = Target(lm), small("full")
    written = run(target, DRAFTERS["ngram"](target, retrieval), prompt(), retrieval)[0]
    assert written == by_generate(NEW, name=name)
    assert taken.captures == 0


def test_plain_decoding_is_captured_once(captured: Captured) -> None:
    target = Target(captured.lm)
    for _ in range(2):
        tokens, meter = run(target, DRAFTERS["none"](target, small("full")), LONG, small("full"))
        assert tokens == by_generate(NEW)
    assert (captured.taken.captures, captured.taken.replays) == (1, 2 * meter.steps)
    prompts, graphs = len(captured.asked) - 1 - 2 * meter.steps, captured.asked.count(1)
    assert graphs == 1 + 2 * meter.steps
    assert prompts == 2 * -(-len(LONG) // 64)


@grid(name=["eagle1", "eagle3", "eagle3-2-layers"], policy=POLICIES)
def test_graphed_heads_are_lossless(captured: Captured, name: str, policy: str) -> None:
    lm, taken, retrieval = captured.lm, Taken(), small(policy)
    head = tiny_head(name)
    use_graphs(lm, [head], capture=taken)
    target = Target(lm)
    drafter = BlendDrafter([EagleDrafter(head, target, retrieval), NgramDrafter()])
    assert run(target, drafter, LONG, retrieval, shape=SHAPE)[0] == by_generate(NEW)
    drop_graphs(lm, [head])
    assert head.forward_backend is None
    assert taken.replays > taken.captures


def test_states_queries_and_keys_are_the_stock_ones(captured: Captured) -> None:
    tree = DraftTree([3, 4, 5, 6, 7], [0, 0, 1, 1, 3], [1.0] * 5)

    def verified() -> list[Tensor]:
        target = Target(captured.lm, score_layers=(0, 2))
        target.begin(300)
        target.cache.buffer.fill_(torch.nan)
        target.prefill(torch.tensor(LONG))
        out = target.verify(tree, features=(0, 1, 3), record=True)
        target.keep([0, 1, 3])
        assert out.features is not None
        return [out.logits, out.features, target.attention_from([3]), target.cache.rows(0, target.length)]

    ours = [tensor.clone() for tensor in verified()]
    assert captured.taken.replays == 1
    drop_graphs(captured.lm)
    for mine, stock in zip(ours, verified(), strict=True):
        torch.testing.assert_close(mine, stock, rtol=1e-4, atol=1e-5)


def test_graphs_are_captured_per_bucket(captured: Captured) -> None:
    target = Target(captured.lm)
    target.begin(300)
    target.prefill(torch.tensor(LONG))
    for n in (5, 6, 7, 8):
        chain = DraftTree(list(range(n)), [0, *range(n - 1)], [1.0] * n)
        target.verify(chain)
        target.keep([0])
    assert captured.taken.captures == 1


def test_other_shapes_run_on_the_model_itself(captured: Captured) -> None:
    lm = captured.lm
    cache = lm.new_cache(256)
    tokens, positions = torch.tensor(LONG), torch.arange(len(LONG))
    context = ForwardContext(triton_tree)
    lm.forward(tokens, positions, cache, context=context)  # a prompt
    cache.commit()
    lm.forward(tokens[:40], positions[:40], cache, context=context)  # a piece of one
    cache.commit()
    chain = torch.ones(33, 33, dtype=torch.bool).tril()
    lm.forward(
        tokens[:33], positions[:33], cache, context=ForwardContext(triton_tree, chain)
    )  # 64 nodes: all that there is
    assert captured.taken.replays == 1
    cache.commit()
    lm.forward(
        tokens[:33], positions[:33], cache, context=ForwardContext(triton_tree, chain)
    )  # 256 rows do not hold them
    cache.rollback()
    lm.forward(tokens[:1], positions[:1], cache, context=ForwardContext(reference))  # another back end
    assert captured.taken.replays == 1
    big = torch.ones(BUCKETS[-1] + 1, BUCKETS[-1] + 1, dtype=torch.bool).tril()
    lm.forward(tokens[: len(big)], positions[: len(big)], cache, context=ForwardContext(triton_tree, big))
    assert captured.taken.captures == 1


def test_a_moved_cache_is_captured_again(captured: Captured) -> None:
    target = Target(captured.lm)
    for length in (100, 1000):
        tokens = prompt(length)
        expected = generate(tiny(), tokens, 8)
        assert run(target, DRAFTERS["none"](target, small("full")), tokens, small("full"), new=8)[0] == expected
    assert captured.taken.captures == 2


def test_memory_with_another_shape_is_captured_again(captured: Captured) -> None:
    """As where an allocator gives a larger cache the place of the smaller one."""
    target = Target(captured.lm)
    target.begin(1000)
    memory = target.cache.buffer
    for rows in (256, 512):
        target.cache.rollback(0)
        shape = (*memory.shape[:3], rows, memory.shape[4])
        target.cache.buffer = memory.flatten()[: torch.Size(shape).numel()].view(shape)
        target.prefill(torch.tensor(LONG))
        target.verify(DraftTree([3], [0], [1.0]))
    assert captured.taken.captures == 2


def test_a_model_that_cannot_be_captured_runs_itself(captured: Captured) -> None:
    def refusing(body: Callable[[], Any], device: torch.device) -> Any:
        captured.taken.captures += 1
        raise RuntimeError("operation not permitted when stream is capturing")

    drop_graphs(captured.lm)
    use_graphs(captured.lm, capture=refusing)
    target = Target(captured.lm)
    assert run(target, DRAFTERS["none"](target, small("full")), LONG, small("full"))[0] == by_generate(NEW)
    assert captured.taken.captures == 1


def test_graphs_go_with_their_cache(captured: Captured) -> None:
    backend: Any = captured.lm.forward_backend
    target = Target(captured.lm)
    run(target, DRAFTERS["none"](target, small("full")), LONG, small("full"), new=4)
    assert len(backend.graphs._by_cache) == 1
    del target
    gc.collect()
    assert not backend.graphs._by_cache


@interpreted
@pytest.mark.parametrize("drafter", ["none", "eagle3"])
def test_with_the_kernels_themselves(drafter: str) -> None:
    check_identity("cpu", drafter, Taken(), new=5, length=70)


def check_identity(device: str, drafter: str, capture: graphs.Capture, *, new: int, length: int) -> None:
    lm = LanguageModel(tiny().to(device), backend="triton")
    expected = generate(tiny().to(device), prompt(length), new)
    target, retrieval = Target(lm), small("retrieval")
    made = DRAFTERS[drafter](target, retrieval)
    heads = [made.head] if isinstance(made, EagleDrafter) else []
    use_graphs(lm, heads, capture=capture)
    assert run(target, made, prompt(length), retrieval, new=new, shape=SHAPE)[0] == expected
    drop_graphs(lm, heads)
