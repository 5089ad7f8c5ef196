"""The kernels of recurrent layers' states against torch, in Triton's interpreter or on a GPU."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from specextend_cli.engine.cuda import ops
from specextend_cli.engine.cuda.step import WORDS, Recurrence
from specextend_cli.engine.tree import DraftTree
from tests.engine.test_fused_ops import DTYPES, check_near, some
from tests.helpers import torch_kernels
from tests.helpers.triton_marks import devices

LAYERS, LAYER = 3, 1
TREE = DraftTree([0] * 9, (0, 0, 1, 0, 2, 3, 4, 1, 6), [1.0] * 9)
SURPLUS = 2
"""Rows of a graph that no tree has."""
FORMS = [(None, 3), (None, 1), ("tree", 9 + SURPLUS)]
"""Batches of so many sequences; a tree."""


def words_of(form: str | None) -> Tensor | None:
    if form is None:
        return None
    words = torch.zeros(len(TREE) + SURPLUS, WORDS, dtype=torch.long)
    words[: len(TREE), 0] = torch.tensor(TREE.ancestors)
    words[-1] = -1  # as while it is captured: bits of rows that there are not
    return words


class States:
    """Memory for the states of some sequences, before and after; new ones of a batch take the old ones' place."""

    def __init__(self, shape: tuple[int, ...], slots: int, dtype: torch.dtype, *, in_place: bool) -> None:
        made = some(2, LAYERS, slots, *shape, dtype=dtype, device="cpu", seed=9)
        self.old, self.new = made
        if in_place:
            self.new = self.old
        self.slots = slots

    def to(self, device: str) -> States:
        self.old, self.new = (
            (self.old.to(device),) * 2 if self.new is self.old else (self.old.to(device), self.new.to(device))
        )
        return self

    def at(self, which: int) -> Tensor:
        places = [0] * 4
        places[which], places[which + 2] = self.old.data_ptr(), self.new.data_ptr()
        return torch.tensor([self.slots, 0 if self.slots == 1 else 1, *places], device=self.old.device)


def both(
    which: int, shape: tuple[int, ...], dtype: torch.dtype, form: str | None, rows: int, device: str, run: Any
) -> None:
    """Compare what the kernel and torch compute and leave; `run` calls one of them."""
    for kept in (None, 0, 6) if form else (None,):
        found = []
        for module, where in ((ops, device), (torch_kernels, "cpu")):
            states = States(shape, 1 if form else rows, dtype, in_place=form is None).to(where)
            words = words_of(form)
            last = None if kept is None else torch.tensor([kept], device=where)
            out = run(module, where, states.at(which), None if words is None else words.to(where), last)
            found.append((out, states))
        (ours, mine), (theirs, other) = found
        assert (ours is None) == (theirs is None) == (kept is not None)
        if ours is not None:
            check_near(ours, theirs)
        changed = form is None or kept is not None
        start = States(shape, 1 if form else rows, dtype, in_place=form is None)
        assert torch.equal(mine.new.cpu(), start.new) != changed
        check_near(mine.new, other.new)
        check_near(mine.old, other.old)


@devices
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("form", "rows"), FORMS)
@pytest.mark.parametrize(("channels", "size"), [(5, 3), (300, 4)])
def test_inputs_of_convolutions(
    device: str, dtype: torch.dtype, form: str | None, rows: int, channels: int, size: int
) -> None:
    given = some(rows, channels + 7, dtype=dtype, device="cpu")

    def run(module: Any, where: str, at: Tensor, words: Tensor | None, last: Tensor | None) -> Any:
        new = given.to(where)[:, :channels].unflatten(0, (1 if form else rows, -1)).transpose(1, 2)
        return module.convolution_inputs(new, size, LAYER, at, words, last)

    both(0, (channels, size), dtype, form, rows, device, run)


KINDS = {"narrow": (4, 2, 12, 40), "wide": (2, 2, 128, 32)}
"""Heads, key heads, K, V."""


@devices
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("form", "rows"), FORMS)
@pytest.mark.parametrize("kind", KINDS)
def test_recurrences(device: str, dtype: torch.dtype, form: str | None, rows: int, kind: str) -> None:
    heads, key_heads, k, v = KINDS[kind]
    mixed = some(rows, 2 * key_heads * k + heads * v, dtype=dtype, device="cpu")
    decay, beta = (
        -some(rows, heads, dtype=torch.float32, device="cpu", seed=1).abs(),
        some(rows, heads, dtype=dtype, device="cpu", seed=2).sigmoid(),
    )

    def run(module: Any, where: str, at: Tensor, words: Tensor | None, last: Tensor | None) -> Any:
        parts = mixed.to(where).split([key_heads * k, key_heads * k, heads * v], -1)
        query, key, value = (
            part.unflatten(-1, (count, -1)) for part, count in zip(parts, (key_heads, key_heads, heads), strict=True)
        )
        given = Recurrence(query, key, value, decay.to(where), beta.to(where), normed=True, scale=0.3)
        return module.recur(given, dtype, LAYER, at, words, last)

    both(1, (heads, k, v), torch.float32, form, rows, device, run)
