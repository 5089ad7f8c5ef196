"""TriForce's two levels, and retrieval by text."""

from __future__ import annotations

from itertools import chain
from math import log

import pytest
import torch

from specextend_cli.bench.baselines import ByText, Lookup, SmallModel, Source, TriForceDrafter, bm25
from specextend_cli.engine.config import Retrieval, TreeShape
from specextend_cli.engine.decode import decode
from specextend_cli.engine.draft_gate import DraftGate
from specextend_cli.engine.drafters import LMDrafter
from specextend_cli.engine.events import Step
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.engine.stop import Stop
from specextend_cli.engine.target import Target
from tests.engine.tiny_models import generate, prompt, small_draft, tiny

CHAIN = TreeShape(nodes=7, depth=6, width=1, threshold=0.0)
ALL = Retrieval(policy="retrieval", chunk=8, top_k=100, recent=8, every=0)
FEW = Retrieval(policy="retrieval", chunk=8, top_k=3, recent=16, sinks=2, every=0)
STREAMING = Retrieval(policy="streaming", chunk=8, top_k=3, recent=16, sinks=2)


def source(kind: str, positions: str) -> Source:
    if kind == "lookup":
        return Lookup()
    config = Retrieval(policy="streaming", chunk=8, top_k=3, recent=16, sinks=2, positions=positions)
    return SmallModel(LanguageModel(small_draft()), Target(LanguageModel(tiny())), config)


def run(target: Target, drafter, config: Retrieval, tokens: list[int], new: int = 24) -> list[list[int]]:
    events = decode(
        target,
        drafter,
        tokens,
        stop=Stop(new),
        retrieval=config,
        gate=DraftGate(CHAIN, enabled=False),
        prefill_chunk=64,
    )
    return [list(event.tokens) for event in events if isinstance(event, Step)]


@pytest.mark.parametrize(
    ("kind", "positions"),
    [
        ("lookup", "absolute"),
        pytest.param("lookup", "compact", marks=pytest.mark.full),
        pytest.param("model", "absolute", marks=pytest.mark.full),
        ("model", "compact"),
    ],
)
def test_triforce_is_lossless(kind: str, positions: str) -> None:
    model, tokens = tiny(), prompt(200)
    expected = generate(model, tokens, 24)
    target = Target(LanguageModel(model))
    config = Retrieval(policy="retrieval", chunk=8, top_k=3, recent=16, sinks=2, every=0, positions=positions)
    drafter = TriForceDrafter(target, source(kind, positions), config)
    for _ in range(2):  # a second sequence finds nothing of the first
        assert list(chain(*run(target, drafter, config, tokens))) == expected


@pytest.mark.parametrize("kind", ["lookup", "model"])
def test_with_nothing_hidden_every_draft_of_triforce_is_accepted(kind: str) -> None:
    # A working set of everything makes the second level the target itself, whatever the smallest source says.
    target = Target(LanguageModel(tiny()))
    steps = run(target, TriForceDrafter(target, source(kind, "absolute"), ALL), ALL, prompt(100), new=43)
    assert [len(step) for step in steps] == [1] + [7] * 6


def test_the_smallest_model_remembers_nothing_that_was_supposed() -> None:
    small = source("model", "absolute")
    tokens = prompt(150)
    small.begin(300)
    small.observe(tokens, None)
    first = small.follow([], 3)
    small.follow([1, 2, 3], 4)
    assert small.follow([], 3) == first
    assert small.follow(first[:1], 2) == first[1:]


def test_lookup_copies_what_followed() -> None:
    lookup = Lookup()
    lookup.begin(0)
    lookup.observe([1, 2, 3, 4, 1, 2], None)
    assert lookup.follow([], 3) == [3, 4, 1]
    assert lookup.follow([3], 2) == [4, 1]
    assert lookup.follow([9], 2) == []


def test_bm25_by_hand() -> None:
    chunks = [[1, 2, 3, 4], [1, 1, 5, 6], [7, 8, 9, 9]]
    # Token 1 stands in two of three chunks of the mean length, once and twice; token 5 in one; 42 in none.
    weight_1, weight_5 = log(1 + 1.5 / 2.5), log(1 + 2.5 / 1.5)
    expected = [weight_1 * 2.2 / 2.2, weight_1 * 2 * 2.2 / 3.2 + weight_5 * 2.2 / 2.2, 0.0]
    assert bm25(chunks, [1, 5, 1, 42]) == pytest.approx(expected)


def test_retrieval_by_text_shows_the_chunk_that_is_being_quoted() -> None:
    lm = LanguageModel(tiny())
    target = Target(lm)
    config = Retrieval(policy="retrieval", chunk=8, top_k=1, recent=8, sinks=0)
    drafter = ByText(LMDrafter(lm, target, config), config)
    tokens = [*([50] * 40), *range(8), *([50] * 40), *range(8)]
    target.begin(200)
    drafter.begin(200)
    target.prefill(torch.tensor(tokens))
    drafter.observe(tokens, None)
    drafter.retrieve(torch.full((len(tokens),), 1 / len(tokens)))
    assert set(range(40, 48)) <= set(drafter.visible().tolist())


def test_retrieval_by_text_is_lossless() -> None:
    model, tokens = tiny(), prompt(200)
    expected = generate(model, tokens, 24)
    lm = LanguageModel(model)
    target = Target(lm)
    config = Retrieval(policy="retrieval", chunk=8, top_k=3, recent=16, sinks=2)
    drafter = ByText(LMDrafter(lm, target, config), config)
    assert list(chain(*run(target, drafter, config, tokens))) == expected
