"""Targets with recurrent layers, by CUDA graphs and without: their states are those of reading in order."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from specextend_cli.engine.batch import BatchRequest, slots_for
from specextend_cli.engine.cache import KVCache
from specextend_cli.engine.cuda import graphs
from specextend_cli.engine.cuda.graph_check import use_checked_graphs
from specextend_cli.engine.decode import decode
from specextend_cli.engine.drafters import LMDrafter
from specextend_cli.engine.events import Accepted
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.engine.step import Step
from specextend_cli.engine.stop import Stop
from specextend_cli.engine.target import Target
from specextend_cli.engine.tree import DraftTree
from specextend_cli.errors import ModelError
from tests.engine.test_graphs import Captured, captured_of
from tests.engine.tiny_models import RECURRENT, VOCABULARY, by_generate, generate, prompt, tiny
from tests.helpers.decoding import DRAFTERS, decode_together, small
from tests.helpers.draft_trees import trees
from tests.helpers.grid import but_for
from tests.helpers.repeated_capture import Repeated
from tests.helpers.torch_kernels import replace_kernels

SOME = ("qwen3.5", "lfm2")
"""One of each kind, a delta net and convolutions: those of presets."""
KEPT = {"the model keeps transformers' layers": "some of its layers are recurrent"}
TREE = DraftTree([3, 4, 5, 6, 7], [0, 0, 1, 1, 3], [1.0] * 5)


@pytest.fixture(autouse=True)
def kernels_of_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    replace_kernels(monkeypatch)
    monkeypatch.setattr(graphs, "TREE_BUCKETS", (32, 12, 4, 1))  # all of them are captured in test_graphs


def made(name: str, dtype: torch.dtype = torch.float32) -> Captured:
    return captured_of(LanguageModel(tiny(name).to(dtype), backend="triton"))


@cache
def model(name: str) -> LanguageModel:
    """Made once: hypothesis asks for it often."""
    return LanguageModel(tiny(name))


@cache
def by_graphs(name: str) -> LanguageModel:
    lm = LanguageModel(tiny(name), backend="triton")
    assert use_checked_graphs(Target(lm), capture=Repeated()) == KEPT
    return lm


Make = Callable[[str], LanguageModel]
either = pytest.mark.parametrize("made", [by_graphs, model])
"""Without graphs trees are chains."""


def read_in_order(lm: LanguageModel, tokens: list[int]) -> KVCache:
    cache = lm.new_cache(len(tokens))
    lm.forward(torch.tensor(tokens), torch.arange(len(tokens)), cache)
    cache.commit()
    return cache


def assert_same_states(cache: KVCache, other: KVCache) -> None:
    """But for rounding, which single numbers that nearly cancel may show: by the size of the whole state."""
    assert len(cache.states.layers) == len(other.states.layers) > 0
    for own, their in zip(cache.states.layers, other.states.layers, strict=True):
        for mine, expected in zip(own.state, their.state, strict=True):
            assert (mine is None) == (expected is None)
            if mine is not None and expected is not None:
                assert mine.shape == expected.shape
                assert (mine - expected).norm() <= 1e-3 * expected.norm()


def chain_of(tokens: list[int]) -> DraftTree:
    return DraftTree(tokens, [max(node - 1, 0) for node in range(len(tokens))], [1.0] * len(tokens))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("name", but_for(("qwen3.5",), RECURRENT))
def test_half_precision(name: str, dtype: torch.dtype) -> None:
    """What is computed differs by rounding, also where logits are in single precision."""
    assert made(name, dtype).prepare() == KEPT


@either
@pytest.mark.parametrize("name", but_for(SOME, RECURRENT))
@settings(max_examples=12, deadline=None)
@given(data=st.data(), length=st.integers(1, 40))
def test_a_cut_back_leaves_the_states_of_the_path(name: str, made: Make, data: st.DataObject, length: int) -> None:
    """Of tree after tree, whatever they are, and wherever a path ends; a block between them runs without graphs."""
    with pytest.MonkeyPatch.context() as patch:
        replace_kernels(patch)
        lm, read = made(name), prompt(40)[-length:]
        target = Target(lm)
        target.begin(200)
        target.prefill(torch.tensor(read))
        for _ in range(data.draw(st.integers(1, 4))):
            tree, chosen = data.draw(trees(vocabulary=VOCABULARY)), data.draw(st.integers(0, 100))
            tree = tree if made is by_graphs else chain_of(tree.tokens)
            logits = target.verify(tree).logits.clone()
            if data.draw(st.booleans()):  # what is dropped leaves no trace
                target.cache.rollback()
                continue
            path = [chosen % len(tree)]
            while path[0]:
                path.insert(0, tree.parents[path[0]])
            target.commit(path)
            read = [*read, *(tree.tokens[node] for node in path)]
            ids = torch.tensor(read)
            expected = lm.forward(
                ids, torch.arange(len(read)), lm.new_cache(len(read)), logits_to_keep=len(path)
            ).logits
            torch.testing.assert_close(logits[path], expected, atol=1e-3, rtol=1e-3)
            if data.draw(st.booleans()):
                target.prefill(torch.tensor([1, 2, 3]))
                read += [1, 2, 3]
        assert_same_states(target.cache, read_in_order(lm, read))
        assert made is by_graphs or all(layer.recorded is None for layer in target.cache.states.layers)


@either
@pytest.mark.parametrize("name", SOME)
def test_only_a_length_that_was_marked_is_gone_back_to(name: str, made: Make) -> None:
    """Graphs change the states of a cache where they lie, but not what a mark took."""
    lm, tokens = made(name), prompt(30)
    cache = read_in_order(lm, tokens)

    def step(token: int) -> None:
        lm.run(Step.of_tree(DraftTree([token], [0], [1.0]), cache.length, cache))
        cache.commit([0])

    step(3)
    cache.states.mark(cache.length)
    for token in (4, 5, 6):
        step(token)
    assert_same_states(cache, read_in_order(lm, [*tokens, 3, 4, 5, 6]))
    assert cache.states.is_marked(31)
    assert not cache.states.is_marked(30)
    with pytest.raises(RuntimeError, match="30 tokens are not known"):
        cache.rollback(30)
    cache.rollback(31)
    assert_same_states(cache, read_in_order(lm, [*tokens, 3]))
    step(7)
    assert_same_states(cache, read_in_order(lm, [*tokens, 3, 7]))


def test_what_cannot_be_kept_is_an_error() -> None:
    lm = model("qwen3.5")
    cache = read_in_order(lm, prompt(40)[:10])
    lm.forward(torch.tensor([1, 2, 3]), torch.arange(10, 13), cache)
    with pytest.raises(RuntimeError, match="committed as a whole"):
        cache.commit([0, 1])
    with pytest.raises(RuntimeError, match="committed tokens only"):
        lm.forward(torch.tensor([1]), torch.tensor([12]), cache)
    cache.rollback()
    lm.run(Step.of_tree(chain_of([1, 2, 3]), 10, cache))
    with pytest.raises(RuntimeError, match="the first ones"):
        cache.commit([0, 2])
    cache.rollback()
    with pytest.raises(RuntimeError, match="not a tree"):
        lm.run(Step.of_tree(DraftTree([1, 2, 3], [0, 0, 0], [1.0] * 3), 10, cache))


def test_what_graphs_cannot_keep_is_an_error() -> None:
    lm = by_graphs("qwen3.5")
    other = read_in_order(lm, prompt(30))
    captured = made("qwen3.5")
    captured.prepare()
    requests = [BatchRequest(prompt(40), Stop(3)) for _ in range(2)]
    for between in (lambda lm: lm.run(Step.of_tree(TREE, 30, other)), lambda lm: decode_together(lm, requests, 2)):
        one = read_in_order(captured.lm, prompt(40)[:10])
        captured.lm.run(Step.of_tree(TREE, 10, one))
        between(captured.lm)
        with pytest.raises(RuntimeError, match="before the next forward"):
            one.commit([0])


@pytest.mark.parametrize("name", SOME)
def test_states_that_are_not_kept_are_found_at_load(name: str) -> None:
    """Graphs that keep paths return nothing: here they do nothing."""

    def capture(body: Callable[[], Any], device: torch.device) -> tuple[Any, Callable[[], None]]:
        first, replay = Repeated()(body, device)
        return first, replay if first is not None else lambda: None

    lm = LanguageModel(tiny(name), backend="triton")
    refused = use_checked_graphs(Target(lm), capture=capture)
    assert "differ from transformers'" in refused["the model runs without CUDA graphs"]
    assert lm.runner is lm.stock


def test_the_first_tokens_of_all_are_left_to_the_model() -> None:
    lm, tokens = by_graphs("qwen3.5"), [3, 4, 6, 7]
    found = lm.run(Step.of_tree(chain_of(tokens), 0, lm.new_cache(64))).logits
    expected = lm.forward(torch.tensor(tokens), torch.arange(4), lm.new_cache(64)).logits
    torch.testing.assert_close(found, expected, atol=1e-3, rtol=1e-3)


def test_trees_larger_than_any_graph_are_chains() -> None:
    target = Target(by_graphs("qwen3.5"))
    assert target.follows_trees(32)
    assert not target.follows_trees(33)


def test_batches_between_the_steps_of_a_text() -> None:
    """One runner serves both, and neither finds the other's states."""
    captured = made("qwen3.5")
    captured.prepare()
    drafts, tokens, written = DRAFTERS["ngram"](captured.target, small("full")), prompt(), []
    texts = [prompt(length) for length in (40, 33)]
    expected = [generate(tiny("qwen3.5"), text, 6) for text in texts]
    for event in decode(captured.target, drafts, tokens, stop=Stop(12)):
        if isinstance(event, Accepted):
            written.extend(event.tokens)
            assert decode_together(captured.lm, [BatchRequest(text, Stop(6)) for text in texts], 2) == expected
    assert written == by_generate(12, name="qwen3.5")


@pytest.mark.parametrize("is_self", [True, False])
def test_they_do_not_draft(is_self: bool) -> None:
    target = Target(model("qwen3.5")) if is_self else Target(LanguageModel(tiny()))
    with pytest.raises(ModelError, match="cannot draft"):
        LMDrafter(model("qwen3.5"), target, small("full"))


@pytest.mark.parametrize("name", SOME)
@pytest.mark.parametrize("shared", [16, 20, 50])
def test_a_shared_prefix_is_gone_back_to(name: str, shared: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The states at its end are remembered: of the second prompt only the rest is read."""
    lm = LanguageModel(tiny(name))
    first, second = prompt(70), [*prompt(70)[:shared], *prompt(30, 4)]
    written = [generate(tiny(name), tokens, 9) for tokens in (first, second, first)]
    forward = Mock(wraps=lm.forward)
    monkeypatch.setattr(lm, "forward", forward)
    requests = [BatchRequest(tokens, Stop(9), shared_prefix=shared) for tokens in (first, second, first)]
    assert decode_together(lm, requests, 2) == written
    assert sum(len(call.args[0]) for call in forward.mock_calls) == shared + (70 - shared) + 30 + (70 - shared)


def test_only_layers_that_attend_take_memory_for_each_token() -> None:
    lm = model("qwen3.5")
    cache = lm.new_cache(256)
    assert cache.buffers[0].shape[1] == 1
    assert lm.state_bytes == read_in_order(lm, prompt(40)).states.nbytes
    row = cache.nbytes // cache.capacity
    assert slots_for(lm, 100, 3 * (100 * row + lm.state_bytes)) == 3


def test_a_retrieval_s_layers_are_named_as_in_the_model() -> None:
    for asked, own in (((1,), {1}), ((0, -1), {1})):  # the only one that attends
        assert Target(model("qwen3.5"), score_layers=asked).score_layers == own
