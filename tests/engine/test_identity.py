"""Lossless: greedy decoding in float32 equals transformers' `generate`, for every drafter, policy, kernel and model."""

from __future__ import annotations

from functools import cache

import pytest
from transformers import LogitsProcessorList, NoRepeatNGramLogitsProcessor, RepetitionPenaltyLogitsProcessor

from specextend_cli.engine.attention.split_kv import fits
from specextend_cli.engine.batch import BatchRequest
from specextend_cli.engine.config import Sampling, TreeShape
from specextend_cli.engine.decode import decode
from specextend_cli.engine.draft_gate import DraftGate
from specextend_cli.engine.drafters import LMDrafter, NoDrafter
from specextend_cli.engine.events import Accepted, Finished
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.engine.native_runner import use_natively
from specextend_cli.engine.stop import Stop
from specextend_cli.engine.target import Target
from tests.engine.tiny_models import CONFIGS, RECURRENT, by_generate, generate, prompt, tiny
from tests.helpers.decoding import (
    DRAFTERS,
    FAMILY_DRAFTERS,
    NEW,
    POLICIES,
    SHAPE,
    WORKING_SETS,
    decode_together,
    run,
    small,
)
from tests.helpers.draft_gates import Impatient, Rarely
from tests.helpers.grid import but_for, grid, pairs
from tests.helpers.packed_weights import broad, four_bit, unpack


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
@pairs(drafter=DRAFTERS, working_set=WORKING_SETS, backend=["torch", "reference"])
def test_every_drafter_policy_and_kernel(drafter: str, working_set: tuple[str, str], backend: str, device: str) -> None:
    policy, positions = working_set
    target = Target(LanguageModel(tiny().to(device), backend=backend if device == "cpu" else "auto"))
    retrieval = small(policy, positions=positions)
    assert run(target, DRAFTERS[drafter](target, retrieval), prompt(), retrieval)[0] == by_generate(NEW)


@pytest.mark.parametrize("kernels", ["ours", "avx2"], indirect=True, scope="module")
@pairs(drafter=DRAFTERS, policy=POLICIES, layers=("ours", "stock"))
def test_every_drafter_and_policy_by_our_kernels(kernels: str, drafter: str, policy: str, layers: str) -> None:
    """With weights of four bits, whose layers are ours or transformers'."""
    target, retrieval = Target(LanguageModel(four_bit(made=broad))), small(policy)
    if layers == "ours":
        use_natively(target.lm)
    assert fits(target.cache.buffers[0].shape[-1], target.lm.dtype, target.lm.device)
    assert run(target, DRAFTERS[drafter](target, retrieval), prompt(), retrieval)[0] == by_full_weights()


@cache
def by_full_weights() -> list[int]:
    """What `generate` writes with the weights that the codes mean."""
    return generate(unpack(four_bit(made=broad)), prompt(), NEW)


@pytest.mark.parametrize("drafter", but_for(("none", "self", "lm", "eagle3", "blend-eagle"), DRAFTERS))
def test_suspended_models_change_no_token(drafter: str) -> None:
    target, retrieval, gate = Target(LanguageModel(tiny())), small("retrieval"), Impatient(SHAPE, enabled=False)
    made = DRAFTERS[drafter](target, retrieval)
    reads = made.feature_layers
    for _ in range(3):
        events = decode(target, made, prompt(), stop=Stop(NEW), retrieval=retrieval, gate=gate)
        steps = [event for event in events if isinstance(event, Accepted)]
        assert [token for step in steps for token in step.tokens] == by_generate(NEW)
        assert not made.retrieves
        assert made.feature_layers == ()
        if drafter in ("self", "lm", "eagle3"):
            assert all(step.nodes == 1 for step in steps[5:])
            assert any(step.nodes > 1 for step in steps) == (gate.sequences % 2 == 1)
    made.begin(10)
    assert made.feature_layers == reads


SOME = ["none", "ngram", "self", "lm-sliding", "blend", "random", "eagle1", "eagle3"]


@pairs(name=CONFIGS, drafter=SOME, policy=POLICIES)
def test_every_model(name: str, drafter: str, policy: str) -> None:
    """Windows, sinks, capped logits, experts, layers without positions, with recurrence: those do not draft."""
    target, retrieval = Target(LanguageModel(tiny(name))), small(policy)
    if name in RECURRENT and drafter in ("self", "blend"):
        drafter = "blend-eagle"
    written = run(target, FAMILY_DRAFTERS[drafter](target, retrieval), prompt(), retrieval, new=20)[0]
    assert written == by_generate(20, name=name)
    assert len(set(written)) > 5  # or little would be shown by it


@grid(name=CONFIGS, slots=[1, 3, 8])
def test_a_batch_equals_generate(name: str, slots: int) -> None:
    prompts = [prompt(60, seed=length)[:length] for length in (40, 9, 33, 1, 57)]
    lengths = (7, 12, 1, 9, 5)
    requests = [BatchRequest(p, Stop(n)) for p, n in zip(prompts, lengths, strict=True)]
    written = decode_together(LanguageModel(tiny(name)), requests, slots)
    assert written == [generate(tiny(name), p, n) for p, n in zip(prompts, lengths, strict=True)]


SAMPLINGS = {
    "greedy": Sampling(),
    "penalized": Sampling(repetition_penalty=1.3, no_repeat_ngram=2),
    "sampled": Sampling(temperature=0.8, top_p=0.95, seed=11, repetition_penalty=1.1, no_repeat_ngram=3),
}


@cache
def without_drafts(sampling: str) -> list[int]:
    """Processors that look back are transformers', samples those of plain decoding."""
    if sampling == "sampled":
        return run(Target(LanguageModel(tiny())), NoDrafter(), prompt(), small("full"), SAMPLINGS[sampling])[0]
    if sampling == "greedy":
        return by_generate(NEW)
    theirs = LogitsProcessorList([RepetitionPenaltyLogitsProcessor(1.3), NoRepeatNGramLogitsProcessor(2)])
    return generate(tiny(), prompt(), NEW, [lambda ids, scores: theirs(ids[:, len(prompt()) :], scores)])


@pairs(
    ("ngram", "self", "blend", "random", "eagle1", "blend-eagle", "lm", "eagle3-window"),
    drafter=DRAFTERS,
    sampling=SAMPLINGS,
    gate=(False, True),
)
def test_neither_sampling_nor_the_gate_changes_a_token(drafter: str, sampling: str, gate: bool) -> None:
    target, retrieval = Target(LanguageModel(tiny())), small("retrieval")
    made = DRAFTERS[drafter](target, retrieval)
    assert run(target, made, prompt(), retrieval, SAMPLINGS[sampling], gate=gate)[0] == without_drafts(sampling)


@pytest.mark.parametrize("name", but_for(("ngram", "lm-window", "eagle3"), DRAFTERS))
def test_a_drafter_can_be_reused_for_other_documents(name: str) -> None:
    model = tiny()
    tokens = {seed: prompt(100 + 50 * seed, seed) for seed in range(3)}
    expected = {seed: generate(model, tokens[seed], 12) for seed in tokens}
    target = Target(LanguageModel(model))
    retrieval = small("retrieval")
    drafter = DRAFTERS[name](target, retrieval)
    for seed in (0, 2, 1, 0):
        fresh = DRAFTERS[name](target, retrieval)
        again, meter = run(target, drafter, tokens[seed], retrieval, new=12)
        alone, meter_alone = run(target, fresh, tokens[seed], retrieval, new=12)
        assert again == alone == expected[seed]
        if drafter.retrieves and drafter.name != "blend":  # n-grams learn across documents, on purpose
            assert meter.accepted_lengths == meter_alone.accepted_lengths


@pytest.mark.parametrize("positions", ["absolute", "compact"])
@pytest.mark.parametrize("policy", POLICIES)
def test_drafts_that_see_everything_are_always_accepted(policy: str, positions: str) -> None:
    """A working set of everything is the full cache, that of the target or one of the draft's own."""
    target, retrieval = Target(LanguageModel(tiny())), small(policy, top_k=100, positions=positions)
    chain = TreeShape(nodes=5, depth=4, width=1, threshold=0.0)
    for lm in (target.lm, LanguageModel(tiny())):
        _, meter = run(target, LMDrafter(lm, target, retrieval), prompt(), retrieval, shape=chain, new=41)
        assert dict(meter.accepted_lengths) == {5: 8}


@grid(length=[63, 64, 65, 66, 128, 129], drafter=["self", "lm", "lm-window"])
def test_prompts_as_long_as_the_drafter_s_chunk(drafter: str, length: int) -> None:
    expected = by_generate(12, length)
    target = Target(LanguageModel(tiny()))
    for positions in ("absolute", "compact"):
        retrieval = small("retrieval", positions=positions)
        assert run(target, DRAFTERS[drafter](target, retrieval), prompt(length), retrieval, new=12)[0] == expected


@pytest.mark.parametrize("drafter", but_for(("ngram", "lm"), ["ngram", "self", "lm", "lm-window", "blend"]))
def test_long_pauses_of_the_gate(drafter: str) -> None:
    target = Target(LanguageModel(tiny()))
    for policy in POLICIES:
        retrieval, gate = small(policy, positions="compact"), Rarely(SHAPE, enabled=False)
        out, _ = run(target, DRAFTERS[drafter](target, retrieval), prompt(), retrieval, gate=gate, new=100)
        assert out == by_generate(100)


def test_the_end_token_and_the_limit() -> None:
    model = tiny()
    expected = generate(model, prompt(), NEW)
    end = expected[12]
    at = expected.index(end)
    target = Target(LanguageModel(model))
    retrieval = small("full")
    for drafter in (NoDrafter(), LMDrafter(target.lm, target, retrieval)):
        gate, stop = DraftGate(enabled=False), Stop(NEW, frozenset([end]))
        events = list(decode(target, drafter, prompt(), stop=stop, retrieval=retrieval, gate=gate))
        steps = [event for event in events if isinstance(event, Accepted)]
        assert [token for step in steps for token in step.tokens] == expected[: at + 1]
        assert steps[-1].length == len(prompt()) + at + 1
        assert events[-1] == Finished("eos", at + 1)


def test_an_empty_prompt_is_refused() -> None:
    target = Target(LanguageModel(tiny()))
    with pytest.raises(ValueError, match="empty"):
        next(decode(target, NoDrafter(), [], stop=Stop(4)))
