"""Gemma 4's assistant models: lossless, the drafts of transformers' own loop, working sets of the target's keys."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import pytest
import torch
from torch import Tensor

from specextend_cli.engine.config import TreeShape
from specextend_cli.engine.cuda import graphs
from specextend_cli.engine.cuda.graph_check import use_checked_graphs
from specextend_cli.engine.drafters import BlendDrafter, NgramDrafter
from specextend_cli.engine.drafters.assistant import SHARED_KINDS, Assistant
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.engine.target import Target
from tests.engine.tiny_models import VOCABULARY, by_generate, prompt, tiny
from tests.helpers.decoding import NEW, POLICIES, SHAPE, run, small
from tests.helpers.grid import but_for, pairs
from tests.helpers.pretend_device import PretendDevice
from tests.helpers.repeated_capture import Repeated
from tests.helpers.tiny_assistants import assistant_drafter, target_of, tiny_assistant
from tests.helpers.torch_kernels import replace_attention, replace_kernels

TARGETS = ("gemma4", "gemma4-shared")
CHAIN = TreeShape(nodes=5, depth=4, width=1, threshold=0.0)


@pairs(name=TARGETS, policy=POLICIES, clusters=[0, VOCABULARY], blended=[False, True])
def test_lossless(name: str, policy: str, clusters: int, blended: bool) -> None:
    target = target_of(tiny(name))
    drafter: Any = assistant_drafter(target, policy, clusters=clusters)
    if blended:
        drafter = BlendDrafter([NgramDrafter(), drafter])
    written, meter = run(target, drafter, prompt(), small(policy))
    assert written == by_generate(NEW, name=name)
    assert meter.drafted_steps > 0


def read(target: Target, tokens: list[int]) -> tuple[Tensor, int]:
    """The target's state at the end of a prompt, and the token that it chooses there."""
    target.begin(len(tokens) + 64)
    out = target.prefill(torch.tensor(tokens), features=(target.lm.layers,))
    assert out.features is not None
    return out.features, int(out.logits[-1].argmax())


@pytest.mark.parametrize("clusters", [0, VOCABULARY])
@pytest.mark.parametrize("name", TARGETS)
@torch.inference_mode()
def test_a_chain_is_what_transformers_drafts(name: str, clusters: int) -> None:
    """Its forward is given the keys that its own candidate generator would give it: those within the window."""
    target, tokens = target_of(tiny(name)), prompt(90)
    drafter = assistant_drafter(target, "full", clusters=clusters)
    states, last = read(target, tokens)
    drafter.begin(200)
    drafter.observe([*tokens, last], states)
    tree = drafter.propose(CHAIN)
    own: Any = tiny_assistant(clusters=clusters)
    own.set_attn_implementation("eager")
    keys = drafter._keys()
    assert keys["sliding_attention"][0].shape[2] == 15
    assert keys["full_attention"][0].shape[2] == 90
    state, token, drafted = states[None, -1:], torch.tensor([[last]]), []
    for _ in range(CHAIN.depth):
        out = own(
            inputs_embeds=torch.cat((target.lm.model.get_input_embeddings()(token), state), -1),
            position_ids=torch.tensor([[90]]),
            shared_kv_states=keys,
            use_cache=False,
        )
        state, token = out.last_hidden_state, out.logits.argmax(-1)
        drafted.append(int(token))
    assert tree.tokens == [last, *drafted]
    assert list(tree.parents[1:]) == [*range(CHAIN.depth)]


@torch.inference_mode()
def test_rows_of_a_level_do_not_see_each_other() -> None:
    target = target_of(tiny("gemma4"))
    drafter = assistant_drafter(target, "full")
    states, _ = read(target, prompt(90))
    position, keys = torch.tensor([90]), drafter._keys()
    tokens = torch.tensor([3, 14, 15])
    together = drafter.assistant(tokens, states[-3:], position, keys)
    for row in range(3):
        alone = drafter.assistant(tokens[row : row + 1], states[row - 3 or None :][:1], position, keys)
        torch.testing.assert_close(together.logits[row], alone.logits[0], rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(together.state[row], alone.state[0], rtol=1e-4, atol=1e-5)


@torch.inference_mode()
def test_only_a_working_set_is_seen_where_one_is_chosen() -> None:
    """Keys outside it may be anything."""
    target, tokens = target_of(tiny("gemma4")), prompt(120)
    drafter = assistant_drafter(target)
    states, last = read(target, tokens)
    drafter.begin(200)
    drafter.observe([*tokens, last], states)
    scores = torch.zeros(120).index_fill_(0, torch.tensor([40, 41, 72, 73]), 1.0)
    drafter.retrieve(scores)
    seen = drafter.visible().tolist()
    assert {0, 1, *range(40, 48), *range(72, 80), *range(104, 120)} <= set(seen)
    assert len(seen) == drafter.config.size < 120
    assert drafter.is_restricted
    before = drafter.propose(CHAIN)
    hidden = [at for at in range(120) if at not in seen]
    keys = target.cache.of_layer(drafter.assistant.sources["full_attention"])
    keys[..., hidden, :] = torch.nan
    assert drafter.propose(CHAIN).tokens == before.tokens
    keys[..., seen[-1], :] = torch.nan
    assert drafter.propose(CHAIN).tokens == [last]
    assert "not numbers" in str(drafter.failure)
    assert not drafter.retrieves


@pytest.mark.parametrize("blended", [False, True])
def test_states_are_read_at_the_end_of_a_prompt_only(blended: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where none are asked for, the target's last layers compute one row of a chunk."""
    target = target_of(tiny("gemma4-shared"))
    prefill = Mock(wraps=target.prefill)
    monkeypatch.setattr(target, "prefill", prefill)
    drafter: Any = assistant_drafter(target)
    if blended:
        drafter = BlendDrafter([NgramDrafter(), drafter])
    assert run(target, drafter, prompt(), small("retrieval"))[0] == by_generate(NEW, name="gemma4-shared")
    assert [call.kwargs["features"] for call in prefill.mock_calls] == [(), (), (4,)]


def test_a_suspended_one_asks_for_no_states() -> None:
    target = target_of(tiny("gemma4"))
    drafter = assistant_drafter(target)
    assert drafter.feature_layers == (3,)
    drafter.suspend()
    assert drafter.feature_layers == ()
    assert not drafter.retrieves
    assert drafter.propose(CHAIN).tokens == [0]
    drafter.begin(10)
    assert drafter.feature_layers == (3,)


def test_it_attends_to_the_last_layers_with_keys() -> None:
    assert assistant_drafter(target_of(tiny("gemma4"))).assistant.sources == dict(
        zip(SHARED_KINDS, (2, 1), strict=True)
    )
    shared = assistant_drafter(target_of(tiny("gemma4-shared"))).assistant.sources
    assert shared == dict(zip(SHARED_KINDS, (1, 0), strict=True))  # the other two layers have none


@pytest.mark.parametrize(
    ("target", "changes", "why"),
    [
        ("gemma4", {"backbone": 64}, "reads states of 64, the target's have 84"),
        ("gemma4", {"global_head_dim": 32}, "heads of 32 numbers, the target's 1 of 40"),
        ("gemma4", {"num_attention_heads": 6}, "6 heads of 24 numbers, the target's 7 of 24"),
        ("gemma4", {"vocab_size": 200}, "writes 200 tokens, the target has 97"),
        ("gemma", {"backbone": 64}, "of the kind sliding_attention, which the target has not"),
    ],
)
def test_one_of_another_target_is_refused(target: str, changes: dict[str, Any], why: str) -> None:
    lm = target_of(tiny(target)).lm
    with pytest.raises(ValueError, match=why):
        Assistant(tiny_assistant(**changes), lm)


@pytest.mark.parametrize("name", but_for(("gemma4-shared",), TARGETS))
def test_by_graphs_of_the_target(name: str, pretend: PretendDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    replace_attention(monkeypatch)
    replace_kernels(monkeypatch)
    monkeypatch.setattr(graphs, "TREE_BUCKETS", (16, 1))  # all of them are captured in test_graphs
    target, capture = Target(LanguageModel(tiny(name).to("cuda"), backend="triton")), Repeated()
    drafter = BlendDrafter([NgramDrafter(), assistant_drafter(target)])
    assert list(use_checked_graphs(target, drafter, SHAPE, capture=capture)) == ["the model keeps transformers' layers"]
    capture.replays = 0
    for length in (60, 40):  # the second sequence has another working set
        written, _ = run(target, drafter, prompt(length), small("retrieval"), new=8)
        assert written == by_generate(8, length, name=name)
    assert capture.replays > 0
