"""The loss over few tokens: exact where all are taken, and about right on average where they are drawn."""

from __future__ import annotations

import torch
from torch import Tensor

from specextend_cli.train.loss import Candidates, candidates, cross_entropy


def problem() -> tuple[Tensor, Tensor, Tensor]:
    """States, an output head of 90 tokens, and what was wanted of it: a tenth of the mass elsewhere."""
    torch.manual_seed(0)
    wanted = 0.9 * (2 * torch.randn(7, 90)).softmax(-1)
    return 0.4 * torch.randn(7, 8), torch.randn(90, 8), wanted


def mean(states: Tensor, output: Tensor, chosen: Candidates) -> Tensor:
    return cross_entropy(states, output[chosen.tokens], chosen.wanted, chosen.weights).mean()


def test_over_all_tokens_it_is_the_cross_entropy() -> None:
    states, output, wanted = problem()
    chosen = candidates(wanted, 60, 30)
    losses = cross_entropy(states, output, chosen.wanted, chosen.weights)
    exact = -(wanted * (states @ output.T).log_softmax(-1)).sum(-1)
    assert torch.allclose(losses, exact, atol=1e-5)


def test_the_tokens_that_matter_are_taken_and_the_others_estimated() -> None:
    states, output, wanted = problem()
    exact = mean(states, output, candidates(wanted, 90, 0))
    drawn = []
    for _ in range(300):
        chosen = candidates(wanted, 30, 15)
        assert len(set(chosen.tokens)) == 45
        assert set(wanted.sum(0).topk(30).indices.tolist()) == set(chosen.tokens[:30].tolist())
        assert chosen.weights.sum() == 90
        drawn.append(mean(states, output, chosen))
    assert torch.allclose(torch.stack(drawn).mean(0), exact, rtol=0.03)


def test_gradients_agree_on_average() -> None:
    states, output, wanted = problem()

    def gradient(likely: int, others: int) -> Tensor:
        weight = output.clone().requires_grad_()
        mean(states, weight, candidates(wanted, likely, others)).backward()
        assert weight.grad is not None
        return weight.grad

    drawn = torch.stack([gradient(45, 20) for _ in range(400)]).mean(0)
    exact = gradient(90, 0)
    assert (drawn - exact).norm() < 0.15 * exact.norm()
