"""Where the target looked is what eager attention would show, drafted or not, alone or in a batch."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from tiny_models import prompt, tiny

from specextend_cli.engine.attribution import ATTRIBUTION_INTERVAL, segment_attention
from specextend_cli.engine.batch import BatchRequest, decode_batch
from specextend_cli.engine.config import TreeShape
from specextend_cli.engine.decode import decode
from specextend_cli.engine.draft_gate import DraftGate
from specextend_cli.engine.drafters import NgramDrafter, NoDrafter
from specextend_cli.engine.events import Looked, Step
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.engine.stop import Stop
from specextend_cli.engine.target import Target

MARKS, LAYERS = (3, 10, 10, 31, 60), (0, 2)


def told(lm: LanguageModel, drafter, marks=MARKS, new: int = 24) -> tuple[list[int], list[torch.Tensor], list[int]]:
    """The tokens, a row of shares for each, and the sizes of the trees."""
    tokens: list[int] = []
    rows: list[torch.Tensor] = []
    nodes = []
    waiting = None
    budget = DraftGate(TreeShape(nodes=8, depth=4), gate=False)
    target = Target(lm, look_layers=LAYERS)
    for event in decode(target, drafter, prompt(80), stop=Stop(new), budget=budget, marks=marks, look_every=1):
        if isinstance(event, Looked):
            waiting = event.shares
        elif isinstance(event, Step):
            tokens += event.tokens
            nodes.append(event.nodes)
            if waiting is not None:
                rows += waiting[: len(event.tokens)]
            waiting = None
    return tokens, rows, nodes


def eager(model, tokens: list[int]) -> torch.Tensor:
    """[tokens, segments]: mean over heads and layers of the attention from which each token was predicted."""
    model.set_attn_implementation("eager")
    with torch.inference_mode():
        out = model(torch.tensor([[*prompt(80), *tokens[:-1]]]), output_attentions=True)
    mean = torch.stack([out.attentions[layer][0, :, 79:].mean(0) for layer in LAYERS]).mean(0)
    return torch.stack([mean[:, a:b].sum(-1) for a, b in pairwise(MARKS)], -1)


@pytest.mark.parametrize("name", ["llama", "qwen3"])
@pytest.mark.parametrize("drafter", [NoDrafter, NgramDrafter])
def test_every_token_has_its_row(name: str, drafter) -> None:
    model = tiny(name)
    tokens, rows, nodes = told(LanguageModel(model), drafter())
    assert (max(nodes) > 1) is (drafter is NgramDrafter)
    assert len(rows) == len(tokens) == 24
    assert torch.allclose(torch.stack(rows), eager(model, tokens), atol=1e-5)


def test_nothing_is_told_that_nobody_asked_for() -> None:
    tokens, rows, _ = told(LanguageModel(tiny()), NgramDrafter(), marks=())
    assert (len(tokens), rows) == (24, [])


@pytest.mark.parametrize("slots", [1, 2, 4])
def test_a_batch_tells_each_of_its_own_prompt(slots: int) -> None:
    lm = LanguageModel(tiny())
    requests = [BatchRequest(prompt(80)[:n], Stop(new), marks=marks) for n, new, marks in CASES]
    rows: list[list[torch.Tensor]] = [[] for _ in requests]
    for number, event in decode_batch(lm, requests, slots=slots, look_layers=LAYERS, look_every=1):
        if isinstance(event, Looked):
            rows[number] += event.shares
    for (n, new, marks), found in zip(CASES, rows, strict=True):
        if not marks:
            assert found == []
            continue
        expected = []
        target, stop = Target(lm, look_layers=LAYERS), Stop(new)
        for event in decode(target, NoDrafter(), prompt(80)[:n], stop=stop, marks=marks, look_every=1):
            expected += [event.shares[0]] if isinstance(event, Looked) else []
        assert len(found) == new - 1
        assert torch.allclose(torch.stack(found), torch.stack(expected[1:]), atol=1e-5)


CASES = ((40, 9, (0, 20, 40)), (80, 14, MARKS), (11, 5, ()), (60, 12, (1, 2, 50)), (33, 3, (0, 33)))


def test_shares() -> None:
    row = torch.tensor([[0.1, 0.2, 0.3, 0.4]])
    assert torch.allclose(segment_attention(row, torch.tensor([0, 1, 1, 4])), torch.tensor([[0.1, 0.0, 0.9]]))


def test_a_layer_that_there_is_not_is_refused() -> None:
    with pytest.raises(ValueError, match="layers 0 to 2"):
        Target(LanguageModel(tiny()), look_layers=(3,))


def test_it_is_looked_at_every_few_steps() -> None:
    target = Target(LanguageModel(tiny()), look_layers=LAYERS)
    events = list(decode(target, NoDrafter(), prompt(80), stop=Stop(24), marks=MARKS))
    assert sum(isinstance(event, Looked) for event in events) == 1 + 23 // ATTRIBUTION_INTERVAL
