"""The Triton kernels against `reference` and `hybrid`, in Triton's interpreter or on a GPU.

TRITON_INTERPRET must be set before triton is first imported, and transformers imports it: `test_in_the_interpreter`
runs those of processors in processes of their own, none of which is quick.
"""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch

from specextend_cli.engine.attention.hybrid import hybrid
from specextend_cli.engine.attention.reference import reference
from specextend_cli.engine.attention.softmax import SoftmaxOptions
from specextend_cli.engine.attention.triton_plan import Chip, plan, splits
from specextend_cli.engine.attention.triton_tree import MOST_CAUSAL, attend, pack, triton_tree
from specextend_cli.engine.attention_backends import backend_for
from specextend_cli.engine.cuda.capture import cuda_graph
from tests.helpers.attention_inputs import inputs, random_tree_mask
from tests.helpers.graph_identity import check_identity
from tests.helpers.triton_attention import (
    HEADS,
    TOLERANCE,
    check,
    check_options,
    check_placed,
    check_sequences,
    check_windows,
    exact,
    multiply_bfloat16,
)
from tests.helpers.triton_marks import INTERPRETING, TRITON, devices, interpreted, on_gpu

SIZES = [(1, 0), (1, 690), (7, 63), (33, 140)]  # queries, keys before them
FORMATS = (torch.float32, torch.float16, torch.bfloat16)


@pytest.mark.full
@pytest.mark.skipif(INTERPRETING, reason="this is the interpreter")
@pytest.mark.parametrize(
    "names",
    [
        pytest.param(["test_triton.py"], id="attention"),
        pytest.param(["test_ops.py"], id="other kernels"),
        pytest.param(
            ["test_graph_rehearsal.py::test_with_the_kernels_themselves"], id="models", marks=pytest.mark.slow
        ),
    ],
)
def test_in_the_interpreter(names: list[str]) -> None:
    if TRITON < (3, 7):
        pytest.skip("triton 3.7 or later, whose interpreter works with today's numpy, is not installed")
    tests = [str(Path(__file__).with_name(name)) for name in names]
    command = [sys.executable, "-m", "pytest", *tests, "-m", "not gpu and not slow", "-p", "no:cacheprovider"]
    environment = {**os.environ, "TRITON_INTERPRET": "1", "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(command, env=environment, cwd=Path(__file__).parents[2], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(autouse=True)
def products_in_bfloat16(monkeypatch: pytest.MonkeyPatch) -> None:
    if INTERPRETING:
        multiply_bfloat16(monkeypatch)


# Heads, key heads, queries, keys before them, numbers of a head. Not every size with all: the interpreter is slow.
SHAPES = [
    *(
        (*HEADS[many], *SIZES[size], (64, 96, 128)[(many + size) % 3])
        for many in range(len(HEADS))
        for size in range(4)
    ),
    *((6, 2, 7, 63, d) for d in (16, 80, 256, 512)),  # 512 are the most; 80 leave a part of their block empty
    *((1, 1, *of, 64) for of in [(2, 65), (16, 0), (33, 31), (63, 1), (64, 64), (65, 127), (70, 90), (70, 0)]),
]


@devices
@pytest.mark.parametrize("number", range(len(SHAPES)))
def test_tree_attention_equals_the_reference(device: str, number: int) -> None:
    for dtype in FORMATS if number >= 4 * len(HEADS) else (FORMATS[number % 3],):
        check(SHAPES[number], dtype, device)


@devices
@pytest.mark.parametrize("shape", [(6, 2, 1, 50), (6, 2, 5, 0), (6, 2, 31, 100), (1, 1, 70, 133)])
def test_without_a_mask_queries_are_causal(device: str, shape: tuple[int, int, int, int]) -> None:
    for dtype in FORMATS:
        check((*shape, 64), dtype, device, masked=False)


@devices
@pytest.mark.parametrize("ways", [1, 3, 5, 40])
def test_any_number_of_splits(device: str, ways: int) -> None:
    """Forty are more than there are blocks: some see no key."""
    check((4, 2, 20, 257, 64), FORMATS[1 + ways % 2], device, ways)
    check((4, 2, 3, 257, 64), torch.float32, device, ways, masked=False)


@interpreted
@pytest.mark.parametrize("keys", [16, 32, 64, 128])
def test_any_number_of_keys_per_step(keys: int) -> None:
    """The tree may begin anywhere in a step; a step of 128 may leave two words' worth of prefix before it."""
    for prefix in (1, 63, 127, 128, 191, 255):
        check((2, 2, 9, prefix, 64), torch.float32, ways=2, keys=keys)
    check((2, 2, 66, 127, 64), torch.float16, ways=1, keys=keys)


@interpreted
def test_one_level_of_a_growing_tree_sees_earlier_levels() -> None:
    """A drafter's mask is wider than it is high: w queries over all slots so far; here also over several words."""
    for slots in (9, 64, 150):
        q, k, v = inputs(4, 2, 3, 50 + slots, 64, torch.float32)
        mask = torch.rand(3, slots, generator=torch.Generator().manual_seed(slots)) < 0.3
        mask[:, -3:] = torch.eye(3, dtype=torch.bool)
        for rows in (slice(0, 3), slice(1, 2)):
            out, expected = (f(q[:, :, rows], k, v, 0.125, mask[rows]) for f in (triton_tree, reference))
            assert (out - expected).abs().max() < TOLERANCE[torch.float32]


@interpreted
def test_a_row_that_sees_nothing_of_a_whole_block() -> None:
    q, k, v = inputs(2, 2, 2, 200, 64, torch.float32)
    mask = torch.zeros(2, 200, dtype=torch.bool)
    mask[0, 3] = mask[1, 199] = True  # no prefix, one key each
    for ways in (1, 5):
        launch = plan(2, 200, 2, 64, 4, Chip())._replace(splits=ways)
        out = attend(q, k, v, 0.125, words=pack(mask), tree=200, launch=launch)
        assert torch.allclose(out[0, :, 0], v[0, :, 3], atol=1e-6)
        assert torch.allclose(out[0, :, 1], v[0, :, 199], atol=1e-6)


@interpreted
def test_strided_views_are_read_in_place() -> None:
    buffer = torch.full((2, 3, 2, 512, 64), torch.nan)  # as the cache has it: layers, heads, rows to spare
    q, k, v = inputs(4, 2, 9, 109, 64, torch.float32)
    buffer[:, 1, :, :109] = torch.cat((k, v))
    keys, values = (side[None, :, :109] for side in buffer[:, 1])
    mask, expected = random_tree_mask(9), reference(q, k, v, 0.1, random_tree_mask(9))
    by_row = [tensor.transpose(1, 2).contiguous().transpose(1, 2) for tensor in (q, k, v)]  # as a projection leaves it
    by_dimension = [tensor.transpose(2, 3).contiguous().transpose(2, 3) for tensor in (q, k, v)]
    wide_mask = mask.repeat_interleave(2, 1)[:, ::2]
    for views in ([q, keys, values], by_row, by_dimension):
        assert (triton_tree(*views, 0.1, wide_mask) - expected).abs().max() < TOLERANCE[torch.float32]


@devices
@pytest.mark.parametrize("dtype", FORMATS)
def test_a_cache_and_its_length_on_the_device(device: str, dtype: torch.dtype) -> None:
    check_placed(device, dtype)
    check_sequences(device, dtype)


BOTH = SoftmaxOptions(0.7, torch.linspace(-4, 4, 6))


@devices
@pytest.mark.parametrize(
    ("window", "kinds"),
    [
        (1, [{}, {"slots": 70}]),
        (3, [{"softmax": BOTH}]),
        (8, [{"slots": 70}]),
        (70, [{"softmax": BOTH}, {"slots": 70}]),
        (71, [{}]),
        (1000, [{}]),
    ],
)
def test_windows_on_the_device(device: str, window: int, kinds: list[dict[str, Any]]) -> None:
    """Smaller than the tree's depth, than the keys before it, as large, larger; slots of two words."""
    dtype = FORMATS[window % 3]
    for kind in kinds:
        check_windows(device, dtype, window, **kind)
    check_sequences(device, dtype, window)


@interpreted
def test_large_logits() -> None:
    q, k, v = inputs(4, 2, 5, 150, 64, torch.float32)
    mask = random_tree_mask(5)
    for shift in (-500.0, 500.0):
        keys = k + shift * q[:, :2, :1] / q[:, :2, :1].norm()
        out, expected = (f(q, keys, v, 0.5, mask) for f in (triton_tree, exact))
        assert (out - expected).abs().max() < 1e-3  # logits of a thousand have few digits behind the point


@pytest.mark.parametrize("slots", [1, 63, 64, 65, 130])
def test_mask_packing(slots: int) -> None:
    mask = torch.rand(3, slots) < 0.5
    mask[0] = True
    words, bits = pack(mask), torch.arange(slots + -slots % 64)
    assert words.shape == (3, len(bits) // 64)
    assert (words[:, bits // 64] >> bits % 64 & 1).bool().equal(torch.nn.functional.pad(mask, (0, -slots % 64)))


@devices
@pytest.mark.parametrize("ways", [1, 3])
@pytest.mark.parametrize("masked", [True, False])
def test_capped_scores_and_sinks(device: str, masked: bool, ways: int) -> None:
    check_options(device, FORMATS[masked + ways // 2], masked, ways)


def test_other_devices_use_torch_s_back_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a CPU, in bfloat16 there even in the interpreter, and for long chunks of a prompt."""
    if not INTERPRETING:
        monkeypatch.setitem(sys.modules, "triton", None)  # importing it would fail
    backend = backend_for(torch.device("cpu"), "triton")
    for n, dtype in ((7, torch.bfloat16), (MOST_CAUSAL + 1, torch.float32)):
        q, k, v = inputs(4, 2, n, 40 + n, 64, dtype)
        for mask in (None,) if n > MOST_CAUSAL else (None, random_tree_mask(n)):
            assert torch.equal(backend(q, k, v, 0.1, mask), hybrid(q, k, v, 0.1, mask))
    assert (backend_for(torch.device("cuda")) is backend) == INTERPRETING  # where Triton is, GPUs use it by default


def test_splits_fill_the_multiprocessors() -> None:
    assert splits(programs=8, blocks=512, slots=132) == 15  # 120 programs at once
    assert splits(programs=16, blocks=512, slots=132) == 8
    assert splits(programs=132, blocks=512, slots=132) == 1
    assert splits(programs=8, blocks=4, slots=132) == 2  # short texts: at least two blocks a split
    assert splits(programs=1, blocks=1, slots=8) == 1
    for rows in (1, 4, 60, 240, 480):
        for total in (1, 100, 2048, 131072):
            for d in (16, 64, 96, 128, 256, 512):
                for itemsize in (2, 4):
                    cut = plan(rows, total, 8, d, itemsize, Chip(132, 227 * 1024))
                    assert 1 <= cut.splits <= 64
                    assert cut.rows in (16, 32, 64, 128)


@pytest.mark.parametrize("device", [pytest.param("cuda", marks=on_gpu)])
@pytest.mark.parametrize("d", [64, 96, 128])
@pytest.mark.parametrize(("heads", "kv_heads"), [*HEADS, (32, 8)])
@pytest.mark.parametrize("dtype", FORMATS)
def test_long_texts(device: str, dtype: torch.dtype, heads: int, kv_heads: int, d: int) -> None:
    for n, prefix in ((1, 9000), (7, 63), (60, 2000), (70, 7000)):
        for masked in (True, False):
            check((heads, kv_heads, n, prefix, d), dtype, device, masked=masked)


@pytest.mark.parametrize("device", [pytest.param("cuda", marks=on_gpu)])
@pytest.mark.parametrize(
    ("name", "drafter"),
    [*product(["llama"], ["none", "self", "lm", "eagle1", "eagle3"]), *product(["ministral"], ["none", "self"])],
)
def test_decoding_by_graphs_is_identical(device: str, name: str, drafter: str) -> None:
    """Without graphs: `test_identity`."""
    check_identity(device, drafter, cuda_graph, new=40, length=150, name=name)
