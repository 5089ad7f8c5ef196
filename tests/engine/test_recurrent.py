"""Targets and drafts with recurrent layers: lossless, their states those of reading in order, their batches too."""

from __future__ import annotations

from functools import partial

import pytest
import torch
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st

from specextend_cli.engine.attention import ForwardContext
from specextend_cli.engine.batch import BatchRequest, slots_for
from specextend_cli.engine.cache import KVCache
from specextend_cli.engine.config import Retrieval, Sampling
from specextend_cli.engine.cpu.native_model import run_natively
from specextend_cli.engine.drafters import LMDrafter, NoDrafter
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.engine.native import CannotCompileError
from specextend_cli.engine.recurrent_rows import Rows
from specextend_cli.engine.stop import Stop
from specextend_cli.engine.target import Target
from specextend_cli.engine.tree import DraftTree
from specextend_cli.errors import ModelError
from tests.engine.tiny_models import COMMON, MAMBA, RECURRENT, VOCABULARY, by_generate, generate, prompt, tiny
from tests.helpers.decoding import FAMILY_DRAFTERS as ALL
from tests.helpers.decoding import NEW, POLICIES, run, small
from tests.helpers.decoding import decode_together as run_batch
from tests.helpers.draft_trees import trees
from tests.helpers.grid import but_for, pairs

KINDS = ("qwen3.5", "lfm2", "granite-h", "falcon-h1")
"""One of each kind: a delta net, convolutions, Mamba-2 between layers of attention and beside them."""
SOME = KINDS[:2]
"""Those of presets, which the quick tests run."""


@pairs((*SOME, "granite-h"), name=KINDS, drafter=ALL, policy=POLICIES)
def test_drafts_change_no_token(name: str, drafter: str, policy: str) -> None:
    target, retrieval = Target(LanguageModel(tiny(name))), small(policy)
    written = run(target, ALL[drafter](target, retrieval), prompt(), retrieval)[0]
    assert written == by_generate(NEW, name=name)
    assert len(set(written)) > 5  # or little would be shown by it


@pairs(SOME, name=RECURRENT, drafter=["ngram", "self", "blend", "random"], seed=[1, 2, 3])
def test_drafts_change_no_token_of_other_weights(name: str, drafter: str, seed: int) -> None:
    target, retrieval = Target(LanguageModel(tiny(name, seed))), small("retrieval")
    tokens = prompt(60 + seed, seed)
    written, meter = run(target, ALL[drafter](target, retrieval), tokens, retrieval)
    assert written == generate(tiny(name, seed), tokens, NEW)
    assert meter.steps < NEW or drafter == "random"


@pairs(SOME, name=RECURRENT, drafter=["ngram", "self", "eagle3"], temperature=[0.7, 1.0])
def test_samples_are_those_of_plain_decoding(name: str, drafter: str, temperature: float) -> None:
    target, retrieval = Target(LanguageModel(tiny(name))), small("retrieval")
    sampling = Sampling(temperature=temperature, seed=5)
    plain = run(target, NoDrafter(), prompt(), retrieval, sampling)[0]
    assert run(target, ALL[drafter](target, retrieval), prompt(), retrieval, sampling)[0] == plain
    assert plain != by_generate(NEW, name=name)


@pairs(SOME, draft=RECURRENT, target=["llama", "qwen3.5", "granite-h"], policy=POLICIES, window=[None, 32])
def test_a_recurrent_draft_changes_no_token(draft: str, target: str, policy: str, window: int | None) -> None:
    of_target, retrieval = Target(LanguageModel(tiny(target))), small(policy)
    drafter = LMDrafter(LanguageModel(tiny(draft, 1)), of_target, retrieval, window=window)
    assert run(of_target, drafter, prompt(), retrieval)[0] == by_generate(NEW, name=target)


@pairs(SOME, name=RECURRENT, policy=POLICIES, is_self=[True, False], positions=["absolute", "compact"])
def test_the_target_as_its_own_draft_is_accepted(name: str, policy: str, is_self: bool, positions: str) -> None:
    """With everything in its working set it is the target, if its states are."""
    if positions == "compact" and name in ("granite-h", "nemotron-h"):
        pytest.skip("its keys have no positions")
    target, retrieval = Target(LanguageModel(tiny(name))), small(policy, top_k=100, positions=positions)
    lm = target.lm if is_self else LanguageModel(tiny(name))
    meter = run(target, LMDrafter(lm, target, retrieval), prompt(), retrieval)[1]
    assert meter.accepted_lengths[1] <= 1


@pytest.mark.parametrize("slots", but_for((3,), (1, 3, 8)))
@pytest.mark.parametrize("name", but_for(SOME, RECURRENT))
def test_a_batch_equals_generate(name: str, slots: int) -> None:
    prompts = [prompt(60, seed=length)[:length] for length in (40, 9, 33, 40, 1, 57)]
    lengths = (12, 30, 1, 7, 22, 16)
    requests = [BatchRequest(p, Stop(n)) for p, n in zip(prompts, lengths, strict=True)]
    written = run_batch(LanguageModel(tiny(name)), requests, slots)
    assert written == [generate(tiny(name), p, n) for p, n in zip(prompts, lengths, strict=True)]


@pytest.mark.parametrize("name", but_for(SOME, KINDS))
@pytest.mark.parametrize("shared", [16, 20, 50])
def test_a_shared_prefix_is_gone_back_to(name: str, shared: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The states at its end are remembered: of the second prompt only the rest is read."""
    lm, read = LanguageModel(tiny(name)), []
    first, second = prompt(70), [*prompt(70)[:shared], *prompt(30, 4)]
    written = [generate(tiny(name), tokens, 9) for tokens in (first, second, first)]
    forward = lm.forward
    monkeypatch.setattr(lm, "forward", lambda ids, *a, **k: (read.append(len(ids)), forward(ids, *a, **k))[1])
    requests = [BatchRequest(tokens, Stop(9), shared_prefix=shared) for tokens in (first, second, first)]
    assert run_batch(lm, requests, 2) == written
    assert sum(read) == shared + (70 - shared) + 30 + (70 - shared)


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
            assert mine.keys() == expected.keys()
            for number, state in expected.items():
                assert mine[number].shape == state.shape
                assert (mine[number] - state).norm() <= 1e-3 * state.norm()


@pytest.mark.parametrize("name", but_for(SOME, RECURRENT))
@settings(max_examples=12, deadline=None)
@given(tree=trees(vocabulary=VOCABULARY), chosen=st.integers(0, 100), length=st.integers(1, 40))
def test_a_cut_back_leaves_the_states_of_the_path(name: str, tree: DraftTree, chosen: int, length: int) -> None:
    """Whatever the tree, and wherever the path ends in it; the logits of its nodes are those of their paths, too."""
    lm, tokens = model(name), prompt(40)[-length:]
    target = Target(lm)
    target.begin(100)
    target.prefill(torch.tensor(tokens))
    logits = target.verify(tree).logits
    path = [chosen % len(tree)]
    while path[0]:
        path.insert(0, tree.parents[path[0]])
    target.keep(path)
    read = [*tokens, *(tree.tokens[node] for node in path)]
    assert_same_states(target.cache, read_in_order(lm, read))
    ids = torch.tensor(read)
    expected = lm.forward(ids, torch.arange(len(read)), lm.new_cache(len(read)), logits_to_keep=len(path)).logits
    torch.testing.assert_close(logits[path], expected, atol=1e-3, rtol=1e-3)
    assert target.cache.states.rows.tree == 0
    assert all(not layer.recorded and not layer.level for layer in target.cache.states.layers)


MODELS: dict[str, LanguageModel] = {}


def model(name: str) -> LanguageModel:
    """Made once: hypothesis asks for it often."""
    if name not in MODELS:
        MODELS[name] = LanguageModel(tiny(name))
    return MODELS[name]


@pytest.mark.parametrize("name", but_for(SOME, KINDS))
def test_what_is_dropped_leaves_no_trace(name: str) -> None:
    lm, tokens = model(name), prompt(30)
    cache = read_in_order(lm, tokens)
    tree = DraftTree([1, 2, 3, 4], [0, 0, 0, 1], [1.0] * 4)
    for _ in range(2):
        lm.forward_tree(tree, 30, cache, context=ForwardContext(lm.backend))
        cache.rollback()
        lm.forward(torch.tensor([5]), torch.tensor([30]), cache)
        cache.rollback()
    assert_same_states(cache, read_in_order(lm, tokens))
    cache.begin(10)
    assert cache.states.nbytes == 0
    lm.forward(torch.tensor(tokens[:9]), torch.arange(9), cache)
    cache.commit()
    assert_same_states(cache, read_in_order(lm, tokens[:9]))


def test_a_length_that_was_not_marked_cannot_be_gone_back_to() -> None:
    lm, tokens = model("lfm2"), prompt(30)
    cache = read_in_order(lm, tokens[:20])
    cache.mark()
    lm.forward(torch.tensor(tokens[20:]), torch.arange(20, 30), cache)
    cache.commit()
    assert cache.can_roll_back(20)
    assert not cache.can_roll_back(19)
    with pytest.raises(RuntimeError, match="19 tokens are not known"):
        cache.rollback(19)
    cache.rollback(20)
    assert_same_states(cache, read_in_order(lm, tokens[:20]))


def test_what_cannot_be_kept_is_an_error() -> None:
    lm = model("qwen3.5")
    cache = read_in_order(lm, prompt(40)[:10])
    lm.forward(torch.tensor([1, 2, 3]), torch.arange(10, 13), cache)
    with pytest.raises(RuntimeError, match="kept as a whole"):
        cache.keep([0, 1])
    cache.rollback()
    tree = DraftTree([1, 2], [0, 0], [1.0, 1.0])
    lm.forward_tree(tree, 10, cache, context=ForwardContext(lm.backend))
    with pytest.raises(RuntimeError, match="has to be said"):
        cache.commit()
    with pytest.raises(RuntimeError, match="cannot follow"):
        lm.forward(torch.tensor([1]), torch.tensor([12]), cache)


@given(trees(vocabulary=VOCABULARY))
def test_a_mask_says_what_parents_do(tree: DraftTree) -> None:
    context = ForwardContext(model("lfm2").backend, tree_mask=tree.mask)
    assert context.tree_parents() == tree.parents_before


@given(trees(vocabulary=VOCABULARY), st.integers(1, 5))
def test_windows_follow_the_path(tree: DraftTree, size: int) -> None:
    rows = Rows()
    rows.add(len(tree), tree.parents_before, torch.device("cpu"))
    for node, window in enumerate(rows.windows(size).tolist()):
        path = [node]
        while path[0]:
            path.insert(0, tree.parents[path[0]])
        assert window == [*range(size), *(size + row for row in path)][-size:]


@pytest.mark.parametrize("name", but_for(SOME, RECURRENT))
@torch.inference_mode()
def test_scores_come_from_the_layers_that_attend(name: str) -> None:
    net = tiny(name)
    lm = LanguageModel(net)
    target, tokens = Target(lm, score_layers=(0, -1)), torch.tensor(prompt(90))
    attending = target.cache.attending
    assert target.score_layers == {attending[0], attending[-1]}
    target.begin(100)
    target.prefill(tokens[:60])
    row = target.attention_from(-1)
    net.set_attn_implementation("eager")
    with torch.no_grad():
        own = net(input_ids=tokens[None, :60], output_attentions=True, use_cache=False).attentions
    expected = torch.stack([own[at][0, :, -1].mean(0) for at in (0, -1)]).mean(0)
    torch.testing.assert_close(row, expected, atol=1e-5, rtol=1e-4)


def test_only_layers_that_attend_take_memory_for_each_token() -> None:
    lm = model("qwen3.5")
    cache = lm.new_cache(256)
    assert cache.buffer.shape[1] == 1
    assert lm.state_bytes == read_in_order(lm, prompt(40)).states.nbytes
    row = cache.nbytes // cache.capacity
    assert slots_for(lm, 100, 3 * (100 * row + lm.state_bytes)) == 3


@pytest.mark.parametrize("name", but_for(SOME, KINDS))
def test_the_native_forward_declines(name: str) -> None:
    with pytest.raises(CannotCompileError, match="recurrent"):
        run_natively(LanguageModel(tiny(name), backend="split"))


HYBRID = {**COMMON, "num_hidden_layers": 4}


@pytest.mark.parametrize(
    ("config", "why"),
    [
        (partial(transformers.JambaConfig, attn_layer_period=2, attn_layer_offset=1), "cannot go on from a state"),
        (partial(transformers.BambaConfig, **MAMBA, attn_layer_indices=[]), "none of its layers attends"),
        (partial(transformers.MiniMaxConfig), "do not compute by a function"),
    ],
)
def test_others_are_refused(config: type[transformers.PreTrainedConfig], why: str) -> None:
    with torch.device("meta"):
        net = transformers.AutoModelForCausalLM.from_config(config(**HYBRID))
    with pytest.raises(ModelError) as caught:
        LanguageModel(net)
    assert why in caught.value.why


def test_a_retrieval_s_layers_are_named_as_in_the_model() -> None:
    target = Target(model("qwen3.5"), score_layers=(1,))
    assert target.score_layers == {1}
    retrieval: Retrieval = small("retrieval")
    assert run(target, ALL["self"](target, retrieval), prompt(), retrieval)[0] == by_generate(NEW, name="qwen3.5")
