"""The kernels that choose a draft tree's nodes against torch, in Triton's interpreter or on a GPU."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from specextend_cli.engine.cuda import ops
from specextend_cli.engine.cuda.ops import Level
from tests.helpers import torch_kernels
from tests.helpers.triton_marks import devices


@devices
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize(("width", "vocabulary", "most"), [(3, 100, 100), (6, 2100, 2090), (8, 1024, 1024)])
def test_the_best_of_each_row(device: str, dtype: torch.dtype, width: int, vocabulary: int, most: int) -> None:
    generator = torch.Generator().manual_seed(width)
    rows = [torch.randperm(vocabulary, generator=generator) for _ in range(4)]  # no two are equal
    logits = (torch.stack(rows) / 256).to(device, dtype)
    tokens = torch.randperm(vocabulary, generator=generator).to(device)
    for names in (None, tokens):
        for row in (None, torch.tensor([2], device=device)):
            ours = ops.best(logits, width, most, names, row=row)
            theirs = torch_kernels.best(logits, width, most, names, row=row)
            assert torch.allclose(ours[0], theirs[0], rtol=1e-4, atol=1e-6)
            numbers = [ids if names is None else names.argsort()[ids] for _, ids in (ours, theirs)]
            rows = logits if row is None else logits[row]
            assert torch.equal(*(rows.gather(1, of_logits) for of_logits in numbers))
            assert all(len(set(of_row)) == width for of_row in numbers[0].tolist())
            assert dtype != torch.float32 or torch.equal(ours[1], theirs[1])  # others round some logits to equal ones


@pytest.mark.filterwarnings("ignore:invalid value")  # numpy, by which the interpreter computes
@devices
def test_values_that_are_no_numbers_stay_so(device: str) -> None:
    logits = torch.zeros(1, 40, device=device)
    logits[0, 7] = torch.nan
    assert ops.best(logits, 3, 40, None)[0].isnan().all()


@pytest.mark.filterwarnings("ignore:divide by zero")
@devices
def test_a_block_in_which_nothing_is_possible(device: str) -> None:
    logits = torch.full((2, 2100), -torch.inf, device=device)
    logits[0, 1100:1104], logits[1, 2098] = torch.arange(4.0), 3.0
    ours, theirs = (module.best(logits, 3, 2100, None) for module in (ops, torch_kernels))
    assert torch.allclose(ours[0], theirs[0])
    assert torch.equal(ours[1][0], theirs[1][0])


@devices
@pytest.mark.parametrize("width", [1, 3, 6, 8])
def test_every_level_of_a_draft_equals_torch_s(device: str, width: int) -> None:
    """As many as fill more than one word of the mask."""
    levels = 128 // width - 1 if width > 1 else 7
    generator = torch.Generator().manual_seed(width)
    ours, theirs = (Level(width, 1 + width + levels * width**2, torch.device(where), None) for where in (device, "cpu"))
    begin = torch.tensor([0, 30, 17])
    for number in range(levels):
        shape = (1 if number == 0 else width, width)
        shares = torch.rand(shape, generator=generator).softmax(-1).sort(-1, descending=True).values
        ids = torch.randint(0, 1000, shape, generator=generator)
        ops.advance(ours, shares.to(device), ids.to(device), None if number else begin.to(device))
        torch_kernels.advance(theirs, shares, ids, None if number else begin)
        for name in ("scores", "nodes", "above", "count", "tree"):
            assert torch.equal(of(ours, name), of(theirs, name)), (number, name)
        for name in ("tokens", "positions", "words", "starts", "lengths"):
            assert torch.equal(of(ours.inputs, name), of(theirs.inputs, name)), (number, name)


def of(owner: object, name: str) -> Tensor:
    found: Tensor = getattr(owner, name)
    return found.cpu()
