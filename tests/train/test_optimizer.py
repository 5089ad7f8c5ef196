"""The optimizer of draft training: its state survives, and no parameter is left out."""

from __future__ import annotations

from copy import deepcopy

import torch

from specextend_cli.engine.head import EagleHead
from specextend_cli.train.optimizer import Optimizer
from tests.engine.tiny_heads import tiny_head


def step(head: EagleHead, optimizer: Optimizer) -> dict[str, torch.Tensor]:
    """One update by fixed gradients; returns the parameters."""
    generator = torch.Generator().manual_seed(0)
    for parameter in optimizer.parameters:
        parameter.grad = torch.randn(parameter.shape, generator=generator)
    optimizer.step(1e-2)
    return {name: parameter.detach().clone() for name, parameter in head.named_parameters()}


def test_every_parameter_but_the_embedding_is_updated() -> None:
    head = tiny_head("eagle3.1")
    head.embedding.requires_grad_(False)
    before = {name: parameter.detach().clone() for name, parameter in head.named_parameters()}
    after = step(head, Optimizer(head))
    assert [name for name in before if torch.equal(before[name], after[name])] == ["embedding.weight"]


def test_a_restored_optimizer_goes_on_as_if_nothing_had_happened() -> None:
    head = tiny_head("eagle3.1")
    optimizer = Optimizer(head)
    step(head, optimizer)
    copy = deepcopy(head)
    restored = Optimizer(copy)
    restored.load_state_dict(deepcopy(optimizer.state_dict()))
    expected, found = step(head, optimizer), step(copy, restored)
    assert all(torch.equal(expected[name], found[name]) for name in expected)
