"""The loss over few tokens: exact where all are taken, and about right on average where they are drawn."""

from __future__ import annotations

import torch
from torch import Tensor

from specextend_cli.train.loss import candidates, cross_entropy

NUMBERS = torch.tensor([0, 1, 2, 0, 1, -1, -1])  # of two texts, and padding


def problem() -> tuple[list[Tensor], Tensor, Tensor]:
    """States of two steps, an output head of 90 tokens, and what was wanted of it: a tenth of the mass elsewhere."""
    torch.manual_seed(0)
    wanted = 0.9 * (2 * torch.randn(7, 90)).softmax(-1)
    return [0.4 * torch.randn(7, 8), 0.4 * torch.randn(7, 8)], torch.randn(90, 8), wanted


def test_over_all_tokens_it_is_the_cross_entropy() -> None:
    states, output, wanted = problem()
    chosen = candidates(wanted, 60, 30)
    losses = cross_entropy(states, NUMBERS, output, wanted, chosen)
    for step, loss in enumerate(losses):
        counted = [0, 1, 2, 3, 4] if step == 0 else [1, 2, 4]
        exact = -(wanted * (states[step] @ output.T).log_softmax(-1)).sum(-1)[counted].mean()
        assert torch.allclose(loss, exact, atol=1e-5)


def test_the_tokens_that_matter_are_taken_and_the_others_estimated() -> None:
    states, output, wanted = problem()
    exact = torch.stack(cross_entropy(states, NUMBERS, output, wanted, candidates(wanted, 90, 0)))
    drawn = []
    for _ in range(300):
        chosen = candidates(wanted, 30, 15)
        assert len(set(chosen.tokens)) == 45
        assert set(wanted.sum(0).topk(30).indices.tolist()) == set(chosen.tokens[:30].tolist())
        assert chosen.weights.sum() == 90
        drawn.append(torch.stack(cross_entropy(states, NUMBERS, output, wanted, chosen)))
    assert torch.allclose(torch.stack(drawn).mean(0), exact, rtol=0.03)


def test_gradients_agree_on_average() -> None:
    states, output, wanted = problem()

    def gradient(likely: int, others: int) -> Tensor:
        weight = output.clone().requires_grad_()
        torch.stack(cross_entropy(states, NUMBERS, weight, wanted, candidates(wanted, likely, others))).sum().backward()
        assert weight.grad is not None
        return weight.grad

    mean = torch.stack([gradient(45, 20) for _ in range(400)]).mean(0)
    exact = gradient(90, 0)
    assert (mean - exact).norm() < 0.15 * exact.norm()
