"""The Triton kernels as GPUs get them, compiled to machine code without one: nothing spills, everything fits."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product

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


def is_attention_by_graphs(launch: Launch, dtype: torch.dtype, dim: int) -> bool:
    """Of a kernel's options none or, for trees, all that a model has at once: between them registers differ little."""
    if (launch.kernel, launch.dtype, launch.head_dim) != ("attend_split", dtype, dim):
        return False
    constants = dict(launch.constants)
    options = [constants[name] for name in ("HAS_SINKS", "CAPPED", "WINDOWED")]
    is_of_trees = not constants["CAUSAL"]
    return constants["PLACED"] and (not any(options) or (is_of_trees and options == [False, True, True]))


@pytest.mark.full
@pytest.mark.parametrize(("arch", "dim"), [*product(CHIPS, (128, 512)), *product([75], (64, 128))])
def test_no_attention_by_graphs_spills(dim: int, arch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every size of tree; the widest heads are Gemma 4's.

    A T4 has no bfloat16, and no matrix instructions that Triton knows: it multiplies in registers.
    """
    monkeypatch.setitem(CHIPS, 75, Chip(40, 64 << 10))
    dtype = torch.float16 if arch == 75 else torch.bfloat16
    check((launch for launch in launches(arch) if is_attention_by_graphs(launch, dtype, dim)), arch)


@pytest.mark.full
def test_no_other_kernel_spills() -> None:
    """Without matrix instructions architectures differ little. In bfloat16, or in the one format that they have."""

    def is_usual(launch: Launch) -> bool:
        usual = launch.dtype == torch.bfloat16 and launch.head_dim in (0, 128, 512)
        return usual or launch.kernel in ("first_keys", "best_of_rows", "choose_level")

    others = (launch for launch in launches(80) if launch.kernel != "attend_split")
    check(filter(is_usual, others), 80)


@pytest.mark.slow
@pytest.mark.parametrize("arch", CHIPS)
def test_nothing_spills(arch: int) -> None:
    check(launches(arch), arch)
