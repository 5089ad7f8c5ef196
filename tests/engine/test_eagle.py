"""EAGLE heads: the same logits as an independent computation without cache, hooks or shared code."""

from __future__ import annotations

import pytest
import torch

from specextend_cli.engine.config import Retrieval, TreeShape
from specextend_cli.engine.drafters import EagleDrafter
from specextend_cli.engine.head_config import HeadConfig
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.engine.target import Target
from specextend_cli.engine.tree import root
from tests.engine.tiny_heads import VARIANTS, tiny_head
from tests.engine.tiny_models import prompt, tiny
from tests.helpers.decoding import prefill_in_pieces
from tests.helpers.plain_eagle import Plain, follows

CHAIN = TreeShape(nodes=5, depth=4, width=1, threshold=0.0)


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
        read, states = known[1:], plain.fused(torch.cat(features).double())
        for _ in range(CHAIN.depth):
            logits, own = plain.run(torch.tensor(read), states)
            read, states = [*read, int(head.vocabulary[logits[-1].argmax()])], torch.cat((states, own[-1:]))
        return read[-CHAIN.depth :]

    assert drafter.propose(CHAIN).tokens[1:] == expected_chain(tokens[:89])
    # One more committed token: its predecessor's state is now the target's.
    out = target.verify(root(tokens[88]), features=drafter.feature_layers)
    target.commit([0])
    drafter.observe(tokens[89:90], out.features[:1])
    features.append(out.features[:1])
    assert drafter.propose(CHAIN).tokens[1:] == expected_chain(tokens[:90])


def test_sizes_that_no_head_has() -> None:
    with pytest.raises(ValueError, match="EAGLE-1"):
        HeadConfig(**{**vars(VARIANTS["eagle1"]), "feature_layers": (1, 2, 3)})
