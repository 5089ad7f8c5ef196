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
@pytest.mark.parametrize("dim", [128, 512])
def test_nothing_spills_by_graphs(dim: int, arch: int) -> None:
    """In bfloat16, every size of tree; the widest heads are Gemma 4's. Chunks of prompts, as many as are usual."""

    def is_usual(launch: Launch) -> bool:
        constants = dict(launch.constants)
        kind = constants.get("PLACED", True) and (dim == 512 or constants.get("CHUNK", 32) == 32)
        of_heads = (launch.dtype, launch.head_dim, kind) == (torch.bfloat16, dim, True)
        return of_heads or (dim == 128 and (launch.head_dim == 0 or launch.kernel == "pack_mask"))

    check(filter(is_usual, launches(arch)), arch)


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
