"""The Triton kernels as GPUs get them, compiled to machine code without one: nothing spills, everything fits."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
import torch

from specextend_cli.engine.attention.triton_plan import Chip
from tests.helpers.triton_marks import INTERPRETING, TRITON
from tests.scripts.kernel_resources import CHIPS, Launch, compiled, launches

pytestmark = [
    pytest.mark.skipif(TRITON < (3, 6), reason="needs triton 3.6 or later, which compiles without a GPU"),
    pytest.mark.skipif(INTERPRETING, reason="nothing is compiled for the interpreter"),
]


def check(wanted: Iterable[Launch], arch: int) -> None:
    """Compile them all before anything fails, so that all that spills is named."""
    found = list(compiled(wanted, arch))
    assert found
    assert not [(launch, took) for launch, took in found if took.spilled]
    assert not [(launch, took) for launch, took in found if took.shared > CHIPS[arch].shared_memory]


@pytest.mark.full
@pytest.mark.parametrize("arch", CHIPS)
def test_nothing_spills_of_a_usual_model(arch: int) -> None:
    """By graphs, in bfloat16 with heads of 128: one of each kernel, and every size of tree."""

    def is_usual(launch: Launch) -> bool:
        constants = dict(launch.constants)
        kind = constants.get("PLACED", True) and constants.get("CHUNK", 32) == 32
        return (
            launch.head_dim == 0
            or launch.kernel == "pack_mask"
            or (launch.dtype, launch.head_dim, kind) == (torch.bfloat16, 128, True)
        )

    check(filter(is_usual, launches(arch)), arch)


@pytest.mark.full
@pytest.mark.parametrize("arch", CHIPS)
def test_nothing_spills_of_the_widest_heads(arch: int) -> None:
    """Gemma 4's of 512 numbers, by graphs in bfloat16."""

    def is_wide(launch: Launch) -> bool:
        placed = dict(launch.constants).get("PLACED", True)
        return (launch.dtype, launch.head_dim, placed) == (torch.bfloat16, 512, True)

    check(filter(is_wide, launches(arch)), arch)


@pytest.mark.full
@pytest.mark.parametrize("d", [64, 128])
def test_trees_spill_nothing_before_ampere(d: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a T4, in float16: Triton has no matrix instructions there, and multiplies in registers."""
    monkeypatch.setitem(CHIPS, 75, Chip(40, 64 << 10))

    def is_of_trees(launch: Launch) -> bool:
        return (launch.kernel, launch.dtype, launch.head_dim) == ("attend_split", torch.float16, d)

    check(filter(is_of_trees, launches(75)), 75)


@pytest.mark.slow
@pytest.mark.parametrize("arch", CHIPS)
def test_nothing_spills(arch: int) -> None:
    check(launches(arch), arch)
