"""The kernels of CUDA graphs beside attention's against torch, in Triton's interpreter or on a GPU."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from specextend_cli.engine.cuda import ops
from specextend_cli.engine.cuda.body import WORDS, Recurrence
from specextend_cli.engine.cuda.ops import Level
from specextend_cli.engine.decoder import Norm
from specextend_cli.engine.tree import DraftTree
from tests.helpers import torch_kernels
from tests.helpers.grid import grid
from tests.helpers.triton_marks import devices

DTYPES = (torch.float32, torch.float16, torch.bfloat16)
NEAR = {torch.float32: 2e-6, torch.float16: 2e-3, torch.bfloat16: 4e-2}
"""Of the largest number: the interpreter cuts bfloat16 where a GPU rounds it."""


def some(*shape: int, dtype: torch.dtype, device: str, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(device, dtype)


def check_near(ours: torch.Tensor, theirs: torch.Tensor) -> None:
    assert ours.shape == theirs.shape
    assert ours.dtype == theirs.dtype
    difference = (ours.cpu().float() - theirs.cpu().float()).abs().max()
    assert difference <= NEAR[ours.dtype] * theirs.float().abs().max().cpu()


@devices
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("width", [16, 96, 576])
def test_sums_and_norms(device: str, dtype: torch.dtype, width: int) -> None:
    x, y = (some(5, width, dtype=dtype, device=device, seed=seed) for seed in (1, 2))
    norm = Norm(some(width, dtype=dtype, device=device, seed=3), 1e-5)
    for added, factor in ((None, 1.0), (y, 1.0), (y, 0.22)):
        for ours, theirs in zip(
            ops.add_norm(x, added, norm, factor=factor),
            torch_kernels.add_norm(x, added, norm, factor=factor),
            strict=True,
        ):
            check_near(ours, theirs)
    both = torch.zeros(5, 2 * width, dtype=dtype, device=device)
    ops.add_norm(x, None, norm, out=both[:, width:])
    check_near(both[:, width:], torch_kernels.add_norm(x, None, norm)[1])
    assert not both[:, :width].any()


@devices
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("width", [16, 200, 1536])
def test_gated_products_equal_torch_s(device: str, dtype: torch.dtype, width: int) -> None:
    gate_up = some(3, 2 * width, dtype=dtype, device=device)
    check_near(ops.gated(gate_up), torch_kernels.gated(gate_up))


@devices
@grid(dtype=DTYPES, sequences=(1, 3), d=(32, 64, 96))
def test_rotation_and_storing(device: str, dtype: torch.dtype, sequences: int, d: int) -> None:
    """All, some and none of a head's numbers are rotated, with and without norms of queries and keys."""
    heads, kv_heads, layers, capacity, rows = 4, 2, 3, 40, 3  # a program for each row and head
    qkv = some(rows, (heads + 2 * kv_heads) * d, dtype=dtype, device=device)
    norms = tuple(Norm(some(d, dtype=dtype, device=device, seed=seed), 1e-6) for seed in (4, 5))
    starts = (torch.arange(sequences) * 3 + 2).to(device)
    positions = torch.randint(0, 3000, (rows,), generator=torch.Generator().manual_seed(6)).to(device)
    for rotated in (d, d // 2, 0):
        angles = 10000.0 ** (-torch.arange(0, rotated, 2) / max(rotated, 1))
        turns = torch.cat((angles, torch.tensor([1.1]))) if rotated else None
        for pair in (None, norms):
            found = []
            for module in (ops, torch_kernels):
                where = device if module is ops else "cpu"
                buffer = torch.zeros(2, layers, sequences, kv_heads, capacity, d, dtype=dtype, device=where)
                place = torch.tensor([buffer.data_ptr(), *buffer.stride()[:4]], device=where)
                own = None if pair is None else tuple(Norm(norm.weight.to(where), norm.epsilon) for norm in pair)
                there = None if turns is None else turns.to(where)
                given = (qkv.to(where), heads, kv_heads, there, own, place, starts.to(where), positions.to(where), 1)
                found.append((module.rope_and_store(*given), buffer))
            (ours, cache), (theirs, expected) = found
            check_near(ours, theirs)
            check_near(cache, expected)
            assert int((cache != 0).any(-1).sum()) == 2 * rows * kv_heads


@devices
@pytest.mark.parametrize("dtype", DTYPES)
def test_storing_alone(device: str, dtype: torch.dtype) -> None:
    """In the cache's number format, from any strides."""
    keys, values = (some(2, 5, 3, 32, dtype=torch.float32, device=device, seed=seed).transpose(1, 2) for seed in (1, 2))
    starts = torch.tensor([4, 0], device=device)
    buffer = torch.zeros(2, 2, 2, 3, 16, 32, dtype=dtype, device=device)
    place = torch.tensor([buffer.data_ptr(), *buffer.stride()[:4]], device=device)
    ops.store(keys, values, buffer, place, starts, 1)
    for sequence, start in enumerate(starts.tolist()):
        for kind, rows in enumerate((keys, values)):
            check_near(buffer[kind, 1, sequence, :, start : start + 5], rows[sequence].to(dtype))
    assert int((buffer != 0).any(-1).sum()) == 2 * 2 * 3 * 5


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


def both(
    which: int, shape: tuple[int, ...], dtype: torch.dtype, form: str | None, rows: int, device: str, run: Any
) -> None:
    """Compare what the kernel and torch compute and leave in states; `run` calls one of them.

    A batch's new states take the old ones' place.
    """
    slots, place = (1, 1) if form else (rows, 0)
    start = some(2, LAYERS, slots, *shape, dtype=dtype, device="cpu", seed=9)  # before and after
    for kept in (None, 0, 6) if form else (None,):
        found = []
        for module, where in ((ops, device), (torch_kernels, "cpu")):
            states, addresses = start.clone().to(where), [0] * 4
            addresses[which], addresses[which + 2] = states[0].data_ptr(), states[place].data_ptr()
            at = torch.tensor([slots, int(slots > 1), *addresses], device=where)
            words = words_of(form)
            last = None if kept is None else torch.tensor([kept], device=where)
            out = run(module, where, at, None if words is None else words.to(where), last)
            found.append((out, states))
        (ours, mine), (theirs, other) = found
        assert (ours is None) == (theirs is None) == (kept is not None)
        if ours is not None:
            check_near(ours, theirs)
        changed = form is None or kept is not None
        assert torch.equal(mine[place].cpu(), start[place]) != changed
        check_near(mine, other)


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
