from __future__ import annotations

from itertools import count

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from specextend_cli.engine.config import Retrieval, TreeShape
from specextend_cli.engine.decode import decode
from specextend_cli.engine.draft_gate import DraftGate
from specextend_cli.engine.drafters import LMDrafter
from specextend_cli.engine.drafters.working_set import WorkingSet, rotary_frequencies
from specextend_cli.engine.events import Accepted, Retrieved
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.engine.retrieval import working_set
from specextend_cli.engine.stop import Stop
from specextend_cli.engine.target import Target
from specextend_cli.errors import UsageError
from specextend_cli.runtime.options import Engine
from tests.engine.tiny_models import prompt, tiny

SETTINGS = st.builds(
    Retrieval,
    policy=st.sampled_from(["full", "streaming", "retrieval"]),
    chunk=st.integers(1, 9),
    top_k=st.integers(0, 6),
    recent=st.integers(1, 12),
    sinks=st.integers(0, 5),
)


@given(SETTINGS, st.integers(1, 150), st.booleans(), st.integers(0, 9))
def test_a_working_set_is_ascending_within_bounds_and_keeps_both_ends(
    config: Retrieval, length: int, scored: bool, seed: int
) -> None:
    scores = torch.rand(length, generator=torch.Generator().manual_seed(seed)) if scored else None
    chosen = working_set(config, length, scores).tolist()
    assert chosen == sorted(set(chosen))
    assert set(chosen) <= set(range(length))
    if config.policy == "full" or length <= config.size:
        assert chosen == list(range(length))
        return
    assert len(chosen) == config.size
    assert set(range(config.sinks)) <= set(chosen)
    assert set(range(length - config.recent, length)) <= set(chosen)


def test_retrieval_takes_the_chunks_with_most_attention() -> None:
    config = Retrieval(policy="retrieval", chunk=4, top_k=2, recent=4, sinks=1)
    scores = torch.zeros(40)
    scores[9] = 0.5  # chunk 2
    scores[21], scores[22] = 0.3, 0.3  # chunk 5, with the higher mean
    scores[30] = 0.4  # chunk 7
    chosen = working_set(config, 40, scores)
    assert chosen.tolist() == [0, *range(8, 12), *range(20, 24), *range(36, 40)]


def choices(target: Target, drafter: LMDrafter, config: Retrieval, length: int) -> tuple[int, int]:
    """Working sets that were chosen for a text behind so long a prompt, and steps that drafted."""
    gate = DraftGate(TreeShape(nodes=3, depth=2, width=1), enabled=False)
    events = list(decode(target, drafter, prompt(length), stop=Stop(14), retrieval=config, gate=gate))
    steps = sum(isinstance(event, Accepted) and event.nodes > 0 for event in events)
    return sum(isinstance(event, Retrieved) for event in events), steps


@pytest.mark.parametrize("every", [1, 3, 100])
def test_working_sets_are_chosen_when_the_gate_affords_it(every: int, monkeypatch: pytest.MonkeyPatch) -> None:
    lm, asked = LanguageModel(tiny()), count(1)
    target, config = Target(lm), Retrieval(chunk=4, top_k=2, recent=4, every=1)
    monkeypatch.setattr(DraftGate, "affords_choice", lambda gate: next(asked) % every == 0)
    chosen, steps = choices(target, LMDrafter(lm, target, config), config, 40)
    assert steps > 4
    assert chosen == 1 + (steps - 1) // every


@pytest.mark.parametrize("is_self", [True, False])
@pytest.mark.parametrize(("length", "chosen_again"), [(12, "never"), (30, "later"), (40, "always")])
def test_a_set_is_chosen_again_only_where_it_leaves_something_out(
    is_self: bool, length: int, chosen_again: str
) -> None:
    target = Target(LanguageModel(tiny()))
    config = Retrieval(chunk=4, top_k=4, recent=12, every=1)
    assert length + 14 < config.size or chosen_again != "never"
    drafter = LMDrafter(target.lm if is_self else LanguageModel(tiny()), target, config)
    chosen, steps = choices(target, drafter, config, length)
    assert {"never": chosen == 1, "later": 1 < chosen < steps, "always": chosen == steps}[chosen_again]


@pytest.mark.parametrize("name", ["llama", "llama3-rope", "qwen3", "phi3"])
@torch.inference_mode()
def test_a_compact_working_set_equals_an_independent_rotation(name: str) -> None:
    """Undo RoPE on each chosen key with complex numbers, apply it anew at its dense position."""
    lm = LanguageModel(tiny(name))
    config = Retrieval(policy="retrieval", chunk=4, top_k=3, recent=5, sinks=2, positions="compact")
    working = WorkingSet(lm.new_cache, config, frequencies=rotary_frequencies(lm))
    working.begin(64)
    tokens = torch.tensor(prompt(60))
    lm.forward(tokens, torch.arange(60), working.full)
    working.commit_full(60)
    chosen = torch.tensor([0, 1, 8, 9, 10, 11, 40, 41, 55, 58, 59])
    working.show(chosen)

    half = rotary_frequencies(lm)
    keys = working.full.buffers[0][0, ..., chosen, :]
    pairs = torch.complex(keys[..., : len(half)], keys[..., len(half) : 2 * len(half)])
    plain = pairs * torch.polar(torch.ones(len(chosen), len(half)), -chosen[:, None] * half)
    again = plain * torch.polar(torch.ones(len(chosen), len(half)), torch.arange(len(chosen))[:, None] * half)
    expected = torch.cat((again.real, again.imag, keys[..., 2 * len(half) :]), -1)
    (shown,) = working.cache.rows(0, len(chosen))
    assert torch.allclose(shown[0], expected, atol=1e-5)
    assert torch.equal(shown[1], working.full.buffers[0][1, ..., chosen, :])


def test_the_visible_positions_follow_the_sequence() -> None:
    target = Target(LanguageModel(tiny()))
    config = Retrieval(policy="retrieval", chunk=8, top_k=2, recent=4, sinks=1)
    for lm in (target.lm, LanguageModel(tiny())):
        drafter = LMDrafter(lm, target, config)
        target.begin(200)
        drafter.begin(200)
        tokens = prompt(80)
        target.prefill(torch.tensor(tokens))
        drafter.observe(tokens, None)
        scores = target.attention_from(-1)
        drafter.retrieve(scores)
        read = 80 if drafter.is_self else 79  # the last token waits
        expected = working_set(config, read, scores).tolist()
        assert drafter.visible().tolist() == (expected if drafter.is_self else [*expected, 79])


def test_a_policy_that_does_not_exist_is_refused() -> None:
    with pytest.raises(UsageError, match="no draft attention 'newest'"):
        Engine(draft_attention="newest")
