"""TriForce's two levels."""

from __future__ import annotations

import pytest

from specextend_cli.bench.baselines import Lookup, SmallModel, TriForceDrafter
from specextend_cli.engine.config import Retrieval, TreeShape
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.engine.target import Target
from tests.engine.tiny_models import generate, prompt, small_draft, tiny
from tests.helpers.decoding import run
from tests.helpers.grid import pairs

CHAIN = TreeShape(nodes=7, depth=6, width=1, threshold=0.0)
ALL = Retrieval(policy="retrieval", chunk=8, top_k=100, recent=8, every=0)


def source(kind: str, positions: str) -> Lookup | SmallModel:
    if kind == "lookup":
        return Lookup()
    config = Retrieval(policy="streaming", chunk=8, top_k=3, recent=16, sinks=2, positions=positions)
    return SmallModel(LanguageModel(small_draft()), Target(LanguageModel(tiny())), config)


@pairs(kind=("lookup", "model"), positions=("absolute", "compact"))
def test_triforce_is_lossless(kind: str, positions: str) -> None:
    model, tokens = tiny(), prompt(200)
    expected = generate(model, tokens, 24)
    target = Target(LanguageModel(model))
    config = Retrieval(policy="retrieval", chunk=8, top_k=3, recent=16, sinks=2, every=0, positions=positions)
    drafter = TriForceDrafter(target, source(kind, positions), config)
    for _ in range(2):  # a second sequence finds nothing of the first
        assert run(target, drafter, tokens, config, new=24, shape=CHAIN)[0] == expected


@pytest.mark.parametrize("kind", ["lookup", "model"])
def test_with_nothing_hidden_every_draft_of_triforce_is_accepted(kind: str) -> None:
    # A working set of everything makes the second level the target itself, whatever the smallest source says.
    target = Target(LanguageModel(tiny()))
    drafter = TriForceDrafter(target, source(kind, "absolute"), ALL)
    _, meter = run(target, drafter, prompt(100), ALL, new=43, shape=CHAIN)
    assert dict(meter.accepted_lengths) == {7: 6}


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
