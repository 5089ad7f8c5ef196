"""A drafter can waste time, never change a token: trees of any tokens and scores, and damaged weights."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from specextend_cli.engine.config import Sampling, TreeShape
from specextend_cli.engine.decode import decode
from specextend_cli.engine.draft_gate import DraftGate
from specextend_cli.engine.drafters import BlendDrafter, Drafter, EagleDrafter, NgramDrafter, NoDrafter
from specextend_cli.engine.events import Accepted, DrafterFailed
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.engine.stop import Stop
from specextend_cli.engine.target import Target
from specextend_cli.engine.tree import DraftTree
from tests.engine.tiny_models import VOCABULARY, generate, prompt, tiny
from tests.helpers.decoding import DRAFTERS, POLICIES, SHAPE, run, small
from tests.helpers.draft_trees import trees
from tests.helpers.grid import grid

NEW = 12
TOKENS = prompt(40)
NOT_NUMBERS = (float("nan"), float("inf"), -float("inf"))


class HostileDrafter(Drafter):
    """Hands over what it was given, one tree after the other, with the root that it has to have."""

    name = "hostile"

    def __init__(self, trees: Sequence[DraftTree]) -> None:
        self.trees, self.asked = trees, 0

    def propose(self, shape: TreeShape) -> DraftTree:
        self.asked += 1
        tree = self.trees[self.asked % len(self.trees)]
        return DraftTree([self._last, *tree.tokens[1:]], tree.parents, tree.scores)


@pytest.fixture(scope="module")
def target() -> Target:
    return Target(LanguageModel(tiny()))


@pytest.fixture(scope="module")
def expected() -> list[int]:
    return generate(tiny(), TOKENS, NEW)


SAMPLINGS = [
    Sampling(),
    *(Sampling(temperature=0.9, top_p=0.9, seed=seed, repetition_penalty=1.1) for seed in range(5)),
]


@settings(max_examples=50, deadline=None)
@given(st.lists(trees(vocabulary=VOCABULARY), min_size=1, max_size=4), st.booleans(), st.sampled_from(SAMPLINGS))
def test_tokens_do_not_depend_on_what_a_drafter_hands_over(
    target: Target, handed: list[DraftTree], gate: bool, sampling: Sampling
) -> None:
    plain, _ = run(target, NoDrafter(), TOKENS, small("full"), sampling, new=NEW)
    assert run(target, HostileDrafter(handed), TOKENS, small("full"), sampling, gate=gate, new=NEW)[0] == plain


def _damage(module: torch.nn.Module, value: float) -> None:
    """Replace one number of every matrix."""
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.dim() == 2:
                parameter[0, 0] = value


@grid(name=["eagle3", "lm"], policy=POLICIES, value=NOT_NUMBERS, blended=[False, True])
def test_a_draft_with_a_weight_that_is_no_number_is_switched_off_and_said_once(
    name: str, policy: str, value: float, blended: bool, target: Target, expected: list[int]
) -> None:
    drafter = DRAFTERS[name](target, small(policy))
    _damage(drafter.head if isinstance(drafter, EagleDrafter) else drafter.lm.model, value)
    whole = BlendDrafter([NgramDrafter(), drafter]) if blended else drafter
    failures = []
    for _ in range(2):
        tokens = []
        for event in decode(
            target, whole, TOKENS, stop=Stop(NEW), retrieval=small(policy), gate=DraftGate(SHAPE, enabled=False)
        ):
            if isinstance(event, Accepted):
                tokens += event.tokens
            elif isinstance(event, DrafterFailed):
                failures.append(event.why)
        assert tokens == expected
    assert len(failures) == 1
    assert "not numbers" in failures[0]
    assert whole.failure == failures[0]
