"""Where the target looked is what eager attention would show, drafted or not, alone or in a batch."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch

from specextend_cli.engine.attribution import ATTRIBUTION_INTERVAL, segment_attention
from specextend_cli.engine.batch import BatchRequest, decode_batch
from specextend_cli.engine.config import TreeShape
from specextend_cli.engine.decode import decode
from specextend_cli.engine.draft_gate import DraftGate
from specextend_cli.engine.drafters import NgramDrafter, NoDrafter
from specextend_cli.engine.events import Step
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.engine.stop import Stop
from specextend_cli.engine.target import Target
from tests.engine.tiny_models import prompt, tiny

STARTS, LAYERS = (3, 10, 10, 31, 60), (0, 2)


def told(lm: LanguageModel, drafter, starts=STARTS, new: int = 24) -> tuple[list[int], list[torch.Tensor], list[int]]:
    """The tokens, a row of shares for each, and the sizes of the trees."""
    tokens: list[int] = []
    rows: list[torch.Tensor] = []
    nodes = []
    gate = DraftGate(TreeShape(nodes=8, depth=4), enabled=False)
    target = Target(lm, attribution_layers=LAYERS)
    for event in decode(
        target, drafter, prompt(80), stop=Stop(new), gate=gate, segment_starts=starts, attribution_interval=1
    ):
        if isinstance(event, Step):
            tokens += event.tokens
            nodes.append(event.nodes)
            rows += [] if event.attribution is None else event.attribution
    return tokens, rows, nodes


def eager(model, tokens: list[int]) -> torch.Tensor:
    """[tokens, segments]: mean over heads and layers of the attention from which each token was predicted."""
    model.set_attn_implementation("eager")
    with torch.inference_mode():
        out = model(torch.tensor([[*prompt(80), *tokens[:-1]]]), output_attentions=True)
    mean = torch.stack([out.attentions[layer][0, :, 79:].mean(0) for layer in LAYERS]).mean(0)
    return torch.stack([mean[:, a:b].sum(-1) for a, b in pairwise(STARTS)], -1)


@pytest.mark.parametrize("name", ["llama", "qwen3"])
@pytest.mark.parametrize("drafter", [NoDrafter, NgramDrafter])
def test_every_token_has_its_row(name: str, drafter) -> None:
    model = tiny(name)
    tokens, rows, nodes = told(LanguageModel(model), drafter())
    assert (max(nodes) > 1) is (drafter is NgramDrafter)
    assert len(rows) == len(tokens) == 24
    assert torch.allclose(torch.stack(rows), eager(model, tokens), atol=1e-5)


def test_without_segments_there_is_no_attribution() -> None:
    tokens, rows, _ = told(LanguageModel(tiny()), NgramDrafter(), starts=())
    assert (len(tokens), rows) == (24, [])


@pytest.mark.parametrize("slots", [1, 2, 4])
def test_each_sequence_of_a_batch_has_its_own_attribution(slots: int) -> None:
    lm = LanguageModel(tiny())
    requests = [BatchRequest(prompt(80)[:n], Stop(new), segment_starts=starts) for n, new, starts in CASES]
    rows: list[list[torch.Tensor]] = [[] for _ in requests]
    for number, event in decode_batch(lm, requests, slots=slots, attribution_layers=LAYERS, attribution_interval=1):
        if isinstance(event, Step) and event.attribution is not None:
            rows[number] += event.attribution
    for (n, new, starts), found in zip(CASES, rows, strict=True):
        if not starts:
            assert found == []
            continue
        expected = []
        target, stop = Target(lm, attribution_layers=LAYERS), Stop(new)
        for event in decode(
            target, NoDrafter(), prompt(80)[:n], stop=stop, segment_starts=starts, attribution_interval=1
        ):
            expected += event.attribution if isinstance(event, Step) else []
        assert len(found) == new - 1
        assert torch.allclose(torch.stack(found), torch.stack(expected[1:]), atol=1e-5)


CASES = ((40, 9, (0, 20, 40)), (80, 14, STARTS), (11, 5, ()), (60, 12, (1, 2, 50)), (33, 3, (0, 33)))


def test_attention_is_summed_over_segments() -> None:
    row = torch.tensor([[0.1, 0.2, 0.3, 0.4]])
    assert torch.allclose(segment_attention(row, torch.tensor([0, 1, 1, 4])), torch.tensor([[0.1, 0.0, 0.9]]))


def test_a_layer_out_of_range_is_refused() -> None:
    with pytest.raises(ValueError, match="layers 0 to 2"):
        Target(LanguageModel(tiny()), attribution_layers=(3,))


def test_attribution_is_measured_every_few_steps() -> None:
    target = Target(LanguageModel(tiny()), attribution_layers=LAYERS)
    events = list(decode(target, NoDrafter(), prompt(80), stop=Stop(24), segment_starts=STARTS))
    assert (
        sum(isinstance(event, Step) and event.attribution is not None for event in events)
        == 1 + 23 // ATTRIBUTION_INTERVAL
    )
