"""A prompt read once serves every method, as if each had read it."""

from __future__ import annotations

import torch

from specextend_cli.bench.prefilled import Prefilled
from specextend_cli.engine.config import Retrieval, TreeShape
from specextend_cli.engine.decode import decode
from specextend_cli.engine.draft_gate import DraftGate
from specextend_cli.engine.drafters import LMDrafter, NgramDrafter, NoDrafter
from specextend_cli.engine.events import Accepted, Retrieved
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.engine.stop import Stop
from specextend_cli.engine.target import Target
from tests.engine.tiny_models import prompt, tiny

RETRIEVAL = Retrieval(chunk=8, top_k=3, recent=16, sinks=2)


def run(target: Target, kind: str, tokens: list[int]) -> tuple[list[int], list[object]]:
    drafters = {"none": NoDrafter, "ngram": NgramDrafter}
    drafter = drafters[kind]() if kind in drafters else LMDrafter(target.lm, target, RETRIEVAL)
    gate = DraftGate(TreeShape(nodes=8, depth=3, width=2, threshold=0.0), enabled=False)
    emitted: list[int] = []
    sets: list[object] = []
    for event in decode(target, drafter, tokens, stop=Stop(12), retrieval=RETRIEVAL, gate=gate, prefill_chunk=64):
        emitted += event.tokens if isinstance(event, Accepted) else ()
        sets += [(event.positions.tolist(), round(event.hit, 5))] if isinstance(event, Retrieved) else []
    return emitted, sets


def reads(lm: LanguageModel, monkeypatch) -> list[int]:
    """The sizes of the target's prefill forwards, as they happen."""
    sizes: list[int] = []
    forward = Target.prefill

    def spy(self, tokens, **kwargs):
        sizes.append(len(tokens))
        return forward(self, tokens, **kwargs)

    monkeypatch.setattr(Target, "prefill", spy)
    return sizes


def test_every_method_sees_what_it_would_have_read_itself(monkeypatch) -> None:
    lm, tokens = LanguageModel(tiny()), prompt(150)
    fresh = {kind: run(Target(lm), kind, tokens) for kind in ("none", "ngram", "self")}
    sizes = reads(lm, monkeypatch)
    shared = Prefilled(lm)
    shared.begin(400)
    for kind in ("self", "none", "ngram", "self"):
        assert run(shared, kind, tokens) == fresh[kind]
    assert sizes == [64, 64, 22]
    shared.begin(5000)  # the buffer moves
    assert run(shared, "none", tokens) == fresh["none"]
    assert sizes == [64, 64, 22] * 2


def test_another_prompt_is_read_and_the_first_one_again(monkeypatch) -> None:
    lm = LanguageModel(tiny())
    one, other = prompt(150), prompt(150, seed=5)
    longer, other_start = one[:140] + prompt(60, seed=3), other[:64] + one[64:]
    prompts = (one, other, one, longer, one[:128], one, other_start)
    fresh = [run(Target(lm), "self", tokens) for tokens in prompts]
    sizes = reads(lm, monkeypatch)
    shared = Prefilled(lm)
    shared.begin(600)
    assert [run(shared, "self", tokens) for tokens in prompts] == fresh
    # The pieces that `longer` shares with `one` are not read again, nor those before the end of `one[:128]`.
    assert sizes == [64, 64, 22, 64, 64, 22, 64, 64, 22, 64, 8, 22, 64, 64, 22]


def test_the_cost_of_reading_is_that_of_the_real_one() -> None:
    lm, tokens = LanguageModel(tiny()), torch.tensor(prompt(150))
    shared = Prefilled(lm)
    shared.begin(200)
    shared.prefill(tokens)
    real = shared.read_seconds
    assert 0 < real <= shared.spent_seconds
    shared.begin(200)
    shared.prefill(tokens)
    assert shared.read_seconds == real
