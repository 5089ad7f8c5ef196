"""EAGLE heads: the same logits as an independent computation without cache, hooks or shared code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from specextend_cli.engine.config import Retrieval, TreeShape
from specextend_cli.engine.drafters import EagleDrafter
from specextend_cli.engine.head import EagleHead
from specextend_cli.engine.head_config import HeadConfig
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.engine.step import Step
from specextend_cli.engine.target import Target
from specextend_cli.engine.tree import root
from tests.engine.tiny_heads import VARIANTS, tiny_head
from tests.engine.tiny_models import by_generate, prompt, tiny
from tests.helpers.decoding import NEW, POLICIES, prefill_in_pieces, run, small
from tests.helpers.grid import pairs
from tests.helpers.plain_eagle import Plain, follows

CHAIN = TreeShape(nodes=5, depth=4, width=1, threshold=0.0)


def chain_of(head: EagleHead, plain: Plain, read: Tensor, states: Tensor) -> list[int]:
    """The tokens that the independent computation drafts behind those that were read."""
    chain = []
    for _ in range(CHAIN.depth):
        logits, own = plain.run(read, states)
        chain.append(int(head.vocabulary[logits[-1].argmax()]))
        read, states = torch.cat((read, torch.tensor(chain[-1:]))), torch.cat((states, own[-1:]))
    return chain


@pytest.mark.parametrize("name", VARIANTS)
@torch.inference_mode()
def test_logits_and_states_equal_a_plain_computation_along_a_chain(name: str) -> None:
    follows(tiny_head(name), Plain(tiny_head(name)))


@pytest.mark.parametrize("name", ["eagle1", "eagle3", "eagle3.1", "eagle3-qk-norm"])
@torch.inference_mode()
def test_the_drafter_joins_each_state_with_the_token_after_it(name: str) -> None:
    """The drafter's own chain, after prefill in pieces and after a step, equals the independent computation's."""
    lm = LanguageModel(tiny())
    target, head = Target(lm), tiny_head(name)
    drafter, plain = EagleDrafter(head, target, Retrieval(policy="full")), Plain(head)
    tokens = prompt(90)
    features = prefill_in_pieces(target, drafter, tokens)

    def expected_chain(known: list[int]) -> list[int]:
        return chain_of(head, plain, torch.tensor(known[1:]), plain.fused(torch.cat(features).double()))

    assert drafter.propose(CHAIN).tokens[1:] == expected_chain(tokens[:89])
    # One more committed token: its predecessor's state is now the target's.
    out = target.verify(root(tokens[88]), features=drafter.feature_layers)
    target.commit([0])
    drafter.observe(tokens[89:90], out.features[:1])
    features.append(out.features[:1])
    assert drafter.propose(CHAIN).tokens[1:] == expected_chain(tokens[:90])


@pairs(policy=POLICIES, window=[None, 200])
def test_a_head_attends_to_no_more_than_its_sliding_window(
    policy: str, window: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever its working set is asked to be; the prompt is read so, too, where what a layer reads depends on it."""
    head = tiny_head("eagle3-2-layers", sliding_window=128)
    seen: list[int] = []

    def counting(own: Callable[[Step], Any]) -> Callable[[Step], Any]:
        def counted(step: Step) -> Any:
            mask = step.tree_mask
            seen.append(step.cache.length + (len(step) if mask is None else int(mask.sum(-1).max())))
            return own(step)

        return counted

    for name in ("run_modules", "remember"):
        monkeypatch.setattr(head, name, counting(getattr(head, name)))
    target, retrieval = Target(LanguageModel(tiny())), small(policy, top_k=64, every=50)
    drafter = EagleDrafter(head, target, retrieval, window=window)
    assert run(target, drafter, prompt(420), retrieval, new=2 * NEW)[0] == by_generate(2 * NEW, 420)
    assert 96 < max(seen) <= 128


@torch.inference_mode()
def test_a_windowed_head_with_full_attention_sees_the_newest_tokens() -> None:
    """Its chain is that of the independent computation over the end of the sequence alone."""
    target, head = Target(LanguageModel(tiny())), tiny_head("eagle3", sliding_window=128)
    drafter, plain = EagleDrafter(head, target, Retrieval(policy="full")), Plain(head)
    tokens = prompt(300)
    target.begin(320)
    drafter.begin(320)
    features = target.prefill(torch.tensor(tokens[:299]), features=drafter.feature_layers)[1]
    drafter.observe(tokens[:299], features)
    drafter.observe(tokens[299:], None)
    chain = drafter.propose(CHAIN).tokens[1:]
    rows = drafter.working.visible
    assert 96 < len(rows) <= 128
    assert rows.tolist() == list(range(299 - len(rows), 299))
    assert chain == chain_of(head, plain, torch.tensor(tokens[1:])[rows], plain.fused(features.double())[rows])


def test_sizes_that_no_head_has() -> None:
    with pytest.raises(ValueError, match="EAGLE-1"):
        HeadConfig(**{**vars(VARIANTS["eagle1"]), "feature_layers": (1, 2, 3)})
