"""A draft model with damaged weights wastes time, never changes a token, and is switched off."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from specextend_cli.engine.decode import decode
from specextend_cli.engine.draft_gate import DraftGate
from specextend_cli.engine.drafters import BlendDrafter, Drafter, EagleDrafter, LMDrafter, NgramDrafter
from specextend_cli.engine.events import Accepted, DrafterFailed
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.engine.stop import Stop
from specextend_cli.engine.target import Target
from tests.engine.tiny_heads import tiny_head
from tests.engine.tiny_models import generate, prompt, small_draft, tiny
from tests.helpers.decoding import POLICIES, SHAPE, small
from tests.helpers.grid import grid

NEW = 12
TOKENS = prompt(40)
NOT_NUMBERS = (float("nan"), float("inf"), -float("inf"))


@pytest.fixture(scope="module")
def target() -> Target:
    return Target(LanguageModel(tiny()))


@pytest.fixture(scope="module")
def expected() -> list[int]:
    return generate(tiny(), TOKENS, NEW)


def _damaged(module: torch.nn.Module, value: float) -> torch.nn.Module:
    """One number of every matrix replaced."""
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.dim() == 2:
                parameter[0, 0] = value
    return module


def _eagle(target: Target, policy: str, value: float) -> Drafter:
    return EagleDrafter(_damaged(tiny_head("eagle3"), value), target, small(policy))  # type: ignore[arg-type]


def _lm(target: Target, policy: str, value: float) -> Drafter:
    lm = LanguageModel(small_draft())
    _damaged(lm.model, value)
    return LMDrafter(lm, target, small(policy))


@grid(make=[_eagle, _lm], policy=POLICIES, value=NOT_NUMBERS, blended=[False, True])
def test_a_draft_with_a_weight_that_is_no_number_is_switched_off_and_said_once(
    make: Callable[[Target, str, float], Drafter],
    policy: str,
    value: float,
    blended: bool,
    target: Target,
    expected: list[int],
) -> None:
    drafter = make(target, policy, value)
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
