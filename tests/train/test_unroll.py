"""What a head is trained on is what it will do: unrolled training equals drafting with caches, step by step."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from specextend_cli.engine.attention import ForwardContext
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.train.chain_attention import ChainAttention
from specextend_cli.train.unroll import Rows, join, unroll
from tests.engine.tiny_heads import tiny_head
from tests.engine.tiny_models import prompt, tiny


@pytest.mark.parametrize("name", ["eagle3", "eagle3.1", "eagle3-2-layers", "eagle3-residual", "eagle3-qk-norm"])
@torch.no_grad()
def test_every_step_equals_a_drafted_chain_of_that_depth(name: str) -> None:
    """Row i of step k: the target's states up to i - k, then the head's own, over the sequence's own tokens."""
    head, lm = tiny_head(name), LanguageModel(tiny())
    n, start, steps = 24, 9, 4
    tokens, features = torch.tensor(prompt(60)[:n]), torch.randn(n, 3 * 64)
    other = torch.cat((tokens[: start + 1], torch.tensor(prompt(60)[40:58])))
    others = torch.cat((features[:start], torch.randn(len(other) - start, 3 * 64)))
    # The other text behind the same prompt comes first, and changes nothing.
    rows = join([other, tokens], [others, features], start)
    assert (len(rows.tokens), rows.prompt, len(rows.numbers)) == (start + 64, start, 64)
    before = len(other) - 1 - start
    unrolled = [states[before : before + n - 1 - start] for states in unroll(head, rows, steps)]

    for first in range(start, n - steps):
        cache = head.new_cache(n)
        cache.reserve(first + 1)
        fused = head.fuse(features[: first + 1])
        out = head(tokens[1 : first + 2], fused, torch.arange(first + 1), cache, ForwardContext(lm.backend))
        for step in range(steps):
            row = first + step
            assert torch.allclose(out.logits[-1], head.lm_head(unrolled[step][row - start]), atol=1e-4)
            if row + 2 >= n:
                break
            cache.commit()
            cache.reserve(1)
            out = head(
                tokens[row + 2 : row + 3], out.states[-1:], torch.tensor([row + 1]), cache, ForwardContext(lm.backend)
            )


def test_gradients_reach_every_part_of_the_head() -> None:
    head = tiny_head("eagle3.1")
    head.embedding.requires_grad_(False)
    tokens, features = torch.tensor(prompt(60)[:20]), torch.randn(20, 3 * 64)
    sum(head.lm_head(read).square().mean() for read in unroll(head, join([tokens], [features], 3), 3)).backward()
    without = [name for name, parameter in head.named_parameters() if parameter.grad is None]
    assert without == ["embedding.weight"]
    assert all(float(p.grad.abs().sum()) > 0 for p in head.parameters() if p.grad is not None)


def test_steps_that_do_not_fit_are_refused() -> None:
    head = tiny_head()
    with pytest.raises(ValueError, match="do not fit"):
        unroll(head, join([torch.tensor(prompt(60)[:10])], [torch.randn(10, 192)], 7), 4)


@pytest.mark.parametrize("step", [0, 2])
def test_the_gradient_of_attention_is_that_of_plain_attention(step: int) -> None:
    """Against scaled_dot_product_attention with the whole mask, in float64."""
    torch.manual_seed(0)
    numbers = torch.tensor([0, 1, 2, 3, 0, 1, 2, -1])
    start, n = 5, len(numbers)
    rows = Rows(torch.zeros(start + n, dtype=torch.long), torch.zeros(start + n, 1), numbers)
    q = torch.randn(1, 6, n, 8, dtype=torch.float64, requires_grad=True)
    k, v = (torch.randn(1, 2, start + n * (step + 1), 8, dtype=torch.float64, requires_grad=True) for _ in "kv")
    later = [torch.eye(n, dtype=torch.bool).roll(-(step - m), 1) for m in range(1, step + 1)]
    mask = torch.cat((torch.ones(n, start, dtype=torch.bool), rows.visible(step), *later), 1)
    plain = scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=0.3, enable_gqa=True)
    out = ChainAttention(rows.visible(step), step)(q, k, v, 0.3, None)
    assert torch.allclose(out, plain)
    seen = torch.randn_like(out)
    mine, theirs = (torch.autograd.grad((some * seen).sum(), (q, k, v)) for some in (out, plain))
    assert all(map(torch.allclose, mine, theirs))
