"""Models with recurrent layers by CUDA graphs: what is written, accepted and left in the states is as without them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from specextend_cli.engine.batch import BatchRequest
from specextend_cli.engine.cuda import graphs
from specextend_cli.engine.cuda.graph_check import use_checked_graphs
from specextend_cli.engine.decode import decode
from specextend_cli.engine.events import Accepted
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.engine.step import Step
from specextend_cli.engine.stop import Stop
from specextend_cli.engine.target import Target
from specextend_cli.engine.tree import DraftTree
from tests.engine.test_graphs import Captured, captured_of
from tests.engine.test_recurrent import SOME, assert_same_states, chain_of, model, read_in_order
from tests.engine.tiny_models import RECURRENT, VOCABULARY, by_generate, generate, prompt, tiny
from tests.helpers.decoding import DRAFTERS, NEW, POLICIES, decode_together, run, small
from tests.helpers.draft_trees import trees
from tests.helpers.graph_identity import SHAPE
from tests.helpers.grid import but_for, pairs
from tests.helpers.repeated_capture import Repeated
from tests.helpers.torch_kernels import replace_kernels

KEPT = {"the model keeps transformers' layers": "some of its layers are recurrent"}
TREE = DraftTree([3, 4, 5, 6, 7], [0, 0, 1, 1, 3], [1.0] * 5)


def made(name: str, dtype: torch.dtype = torch.float32) -> Captured:
    return captured_of(LanguageModel(tiny(name).to(dtype), backend="triton"))


@pytest.fixture(autouse=True)
def kernels_of_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    replace_kernels(monkeypatch)
    monkeypatch.setattr(graphs, "TREE_BUCKETS", (32, 12, 4, 1))  # all of them are captured in test_graphs


PROPOSING = ("none", "ngram", "random", "lm", "eagle1", "eagle3", "blend-eagle")


@pairs(("random", "lm", "eagle3"), drafter=PROPOSING, name=SOME, policy=POLICIES)
def test_every_drafter_and_policy(drafter: str, name: str, policy: str) -> None:
    captured = made(name)
    target, retrieval = captured.target, small(policy)
    _, without = run(target, DRAFTERS[drafter](target, retrieval), prompt(), retrieval, shape=SHAPE)
    drafts = DRAFTERS[drafter](target, retrieval)
    refused = captured.prepare(drafts)
    assert refused.items() >= KEPT.items()
    captured.forget()
    written, meter = run(target, drafts, prompt(), retrieval, shape=SHAPE)
    assert written == by_generate(NEW, name=name)
    assert meter.steps <= without.steps  # which are of chains
    assert captured.taken.captures == captured.at_load
    verified = [rows for rows in captured.taken.rows if rows in (32, 12, 4, 1)]
    assert len(verified) >= meter.steps
    if drafter != "self":  # which has forwards of its own
        assert captured.asked == [(1, 64), (1, 64), (1, 22)]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("name", but_for(("qwen3.5",), RECURRENT))
def test_half_precision(name: str, dtype: torch.dtype) -> None:
    """What is computed differs by rounding, also where logits are in single precision."""
    assert made(name, dtype).prepare() == KEPT


LMS: dict[str, LanguageModel] = {}


def by_graphs(name: str) -> LanguageModel:
    """Made once: hypothesis asks for it often."""
    if name not in LMS:
        LMS[name] = LanguageModel(tiny(name), backend="triton")
        assert use_checked_graphs(Target(LMS[name]), capture=Repeated()) == KEPT
    return LMS[name]


Make = Callable[[str], LanguageModel]
either = pytest.mark.parametrize("made", [by_graphs, model])
"""Without graphs trees are chains."""


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
def test_what_is_dropped_leaves_no_trace(name: str, made: Make) -> None:
    lm, tokens = made(name), prompt(30)
    cache = read_in_order(lm, tokens)
    for tree in (TREE if made is by_graphs else chain_of([1, 2, 3, 4]), DraftTree([3], [0], [1.0])):
        for _ in range(2):
            lm.run(Step.of_tree(tree, 30, cache))
            cache.rollback()
    assert_same_states(cache, read_in_order(lm, tokens))
    lm.run(Step.of_tree(DraftTree([3], [0], [1.0]), 30, cache))
    cache.commit()  # a single node is no tree
    assert_same_states(cache, read_in_order(lm, [*tokens, 3]))
    cache.begin(10)
    assert cache.states.nbytes == 0
    lm.forward(torch.tensor(tokens[:9]), torch.arange(9), cache)
    cache.commit()
    assert_same_states(cache, read_in_order(lm, tokens[:9]))


@pytest.mark.parametrize("name", SOME)
def test_states_that_others_took_stay_as_they_were(name: str) -> None:
    """A mark: graphs change the states of a cache where they lie."""
    lm, tokens = by_graphs(name), prompt(30)
    cache = read_in_order(lm, tokens)

    def step(token: int) -> None:
        lm.run(Step.of_tree(DraftTree([token], [0], [1.0]), cache.length, cache))
        cache.commit([0])

    step(3)
    cache.mark()
    for token in (4, 5, 6):
        step(token)
    assert_same_states(cache, read_in_order(lm, [*tokens, 3, 4, 5, 6]))
    cache.rollback(31)
    assert_same_states(cache, read_in_order(lm, [*tokens, 3]))
    step(7)
    assert_same_states(cache, read_in_order(lm, [*tokens, 3, 7]))


def test_what_cannot_be_kept_is_an_error() -> None:
    lm = by_graphs("qwen3.5")
    one, other = read_in_order(lm, prompt(40)[:10]), read_in_order(lm, prompt(30))
    lm.run(Step.of_tree(TREE, 10, one))
    with pytest.raises(RuntimeError, match="has to be said"):
        one.commit()
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
