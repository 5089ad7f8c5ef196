"""What a head is trained on is what it will do: unrolled training equals drafting with caches, step by step."""

from __future__ import annotations

import pytest
import torch

from specextend_cli.engine.attention import ForwardContext
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.train.unroll import unroll
from tests.engine.tiny_heads import tiny_head
from tests.engine.tiny_models import prompt, tiny


@pytest.mark.parametrize("name", ["eagle3", "eagle3.1", "eagle3-2-layers", "eagle3-residual", "eagle3-qk-norm"])
@torch.no_grad()
def test_every_step_equals_a_drafted_chain_of_that_depth(name: str) -> None:
    """Row i of step k: the target's states up to i - k, then the head's own, over the sequence's own tokens."""
    head, lm = tiny_head(name), LanguageModel(tiny())
    n, start, steps = 24, 9, 4
    tokens, features = torch.tensor(prompt(60)[:n]), torch.randn(n, 3 * 64)
    unrolled = unroll(head, tokens, features, start, steps)
    assert [len(states) for states in unrolled] == [n - 1 - start - k for k in range(steps)]

    for first in range(start, n - steps):
        cache = head.new_cache(n)
        cache.reserve(first + 1)
        fused = head.fuse(features[: first + 1])
        out = head(tokens[1 : first + 2], fused, torch.arange(first + 1), cache, ForwardContext(lm.backend))
        for step in range(steps):
            row = first + step
            assert torch.allclose(out.logits[-1], head.lm_head(unrolled[step][row - start - step]), atol=1e-4)
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
    sum(head.lm_head(read).square().mean() for read in unroll(head, tokens, features, 3, 3)).backward()
    without = [name for name, parameter in head.named_parameters() if parameter.grad is None]
    assert without == ["embedding.weight"]
    assert all(float(p.grad.abs().sum()) > 0 for p in head.parameters() if p.grad is not None)


def test_steps_that_do_not_fit_are_refused() -> None:
    head = tiny_head()
    with pytest.raises(ValueError, match="do not fit"):
        unroll(head, torch.tensor(prompt(60)[:10]), torch.randn(10, 192), 7, 4)
