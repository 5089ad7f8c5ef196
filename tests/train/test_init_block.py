"""A block head that begins as an EAGLE head: every row reads the newest state and the first token, and nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from specextend_cli.engine.attention_backends import backend_for
from specextend_cli.engine.block_head import BlockHead
from specextend_cli.engine.head import EagleHead
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.errors import ModelError
from specextend_cli.train.init_block import Observed, check_source, copy_eagle, init_block, observe
from specextend_cli.train.samples import Sample
from specextend_cli.train.target_logits import TargetReader
from tests.engine.tiny_heads import tiny_head
from tests.engine.tiny_models import prompt, tiny

MASK, DEPTH = 7, 4
SAMPLES = [Sample([8 + token % 12 for token in prompt(90, seed)], 7, output=9) for seed in range(12)]


@pytest.fixture(scope="module")
def begun() -> tuple[BlockHead, EagleHead, TargetReader]:
    torch.manual_seed(0)
    lm = LanguageModel(tiny())
    # Heads as wide as the states, so that no rank is cut, and a base of RoPE as trained heads have.
    eagle = tiny_head(head_dim=64, rope={"rope_type": "default", "rope_theta": 1e6}).float()
    target = TargetReader(lm, eagle.config.feature_layers)
    head = init_block(lm, eagle.config, DEPTH, 2, MASK, eagle.vocabulary)
    copy_eagle(head, eagle, target, SAMPLES)
    return head, eagle, target


@torch.no_grad()
def proposed(head: BlockHead, features: torch.Tensor, last: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The rows [depth, hidden] after the first layer, and the logits [depth, vocabulary], behind these states."""
    rows = len(features) + head.config.block
    cache = head.new_cache(rows)
    cache.reserve(rows)
    read: list[torch.Tensor] = []
    hook = head.layers[0].register_forward_hook(lambda *call: read.append(call[2][0]))
    backend = backend_for(features.device, "reference")
    context = head.fuse(features)
    out = head(torch.tensor([last]), context, torch.arange(rows), cache, backend, depth=head.config.depth)
    hook.remove()
    return read[0], out.logits


def states_of(target: TargetReader, sample: Sample) -> torch.Tensor:
    return target.states(sample)[:, : -target.lm.config.hidden_size]


@torch.no_grad()
def test_every_row_of_a_block_is_the_best_linear_map_to_the_eagle_heads_state(
    begun: tuple[BlockHead, EagleHead, TargetReader],
) -> None:
    head, eagle, target = begun
    seen = observe(head, eagle, target, SAMPLES)
    scale = 3 / seen.read.square().mean().sqrt()
    source = eagle.layers[0]
    errors = []
    for sample in SAMPLES:
        features = states_of(target, sample)
        for at in (30, 45, 58, 70):
            last = sample.tokens[at + 1]
            state, token = head.fuse(features[at]), source.input_layernorm(eagle.embedding.weight[last])
            mapped = scale * (seen.of_states @ state + seen.of_tokens @ token)
            rows, _ = proposed(head, features[: at + 1], last)
            for row, begin in zip(rows, [last, *[MASK] * (DEPTH - 1)], strict=True):
                errors.append(float((row - mapped - head.embedding.weight[begin]).norm() / mapped.norm()))
    # In a random target of 64 numbers one plane does not tell every state from every token.
    assert sum(error < 0.2 for error in errors) > 0.7 * len(errors)


@torch.no_grad()
def test_older_states_do_not_matter_at_first_and_the_newest_does(
    begun: tuple[BlockHead, EagleHead, TargetReader],
) -> None:
    head, _, target = begun
    features = states_of(target, SAMPLES[0])[:50].clone()
    rows, _ = proposed(head, features, 9)
    older, newest = features.clone(), features.clone()
    older[:40] = older[:40].flip(0)
    newest[-1] = features[10]
    assert (proposed(head, older, 9)[0] - rows).norm() < 0.01 * rows.norm()
    assert (proposed(head, newest, 9)[0] - rows).norm() > 0.1 * rows.norm()


@torch.no_grad()
def test_the_first_token_is_the_eagle_heads_where_its_state_is_linear(
    begun: tuple[BlockHead, EagleHead, TargetReader],
) -> None:
    head, eagle, target = begun
    source = eagle.layers[0]
    seen: Observed = observe(head, eagle, target, SAMPLES)
    mapped = seen.states @ seen.of_states.T + seen.tokens @ seen.of_tokens.T
    expected = eagle.lm_head(eagle.norm(mapped + source.mlp(source.post_attention_layernorm(mapped)))).argmax(-1)
    row = hits = 0
    for sample in SAMPLES:
        features = states_of(target, sample)
        for at in range(sample.start, len(sample.tokens) - 1):
            if at % 10 == 0:
                logits = proposed(head, features[: at + 1], sample.tokens[at + 1])[1]
                hits += int(logits[0].argmax()) == int(expected[row])
            row += 1
    assert row == len(expected)
    # As above, and logits are close; chance is 1%.
    assert hits > 0.4 * row / 10


def test_heads_that_cannot_be_copied_are_refused() -> None:
    eagle = tiny_head()
    check_source(eagle)
    for changed in ({"fc_norm": True}, {"norm_before_fc": True}, {"mlp_bias": True}, {"layers": 2}):
        eagle.config = replace(tiny_head().config, **changed)  # type: ignore[arg-type]
        with pytest.raises(ModelError, match="no block head"):
            check_source(eagle)
