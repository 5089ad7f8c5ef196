"""The benchmark on a device: its methods by CUDA graphs, and the GPU's suite but for Triton's kernels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any

import pytest
import torch
from specextend_cli.bench.events import Event, Finished, Running, Working
from specextend_cli.bench.roofline import Roofline
from specextend_cli.bench.rows import summarize
from specextend_cli.bench.steps import Steps
from specextend_cli.bench.suite import gpu, synthetic_models
from specextend_cli.bench.suite.device_info import Sizes
from specextend_cli.bench.suite.synthetic_models import LATER, SyntheticModels, batches, prompts

from specextend_cli.bench import rows, session, texts
from specextend_cli.engine.attention import Backend
from specextend_cli.engine.attention.flash_packages import FLASH_ATTN, flash_attn
from specextend_cli.engine.cache import KVCache
from specextend_cli.engine.cuda import graph_check
from specextend_cli.engine.forward import ForwardInput
from specextend_cli.engine.lm import LanguageModel
from tests.helpers import pretend_device
from tests.helpers.graphs_on_pretend_device import by_graphs
from tests.helpers.pretend_device import PretendDevice


@pytest.mark.full
def test_the_suite_s_model_is_measured(pretend: PretendDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "sizes_for", lambda device: Sizes(device, label="a pretend device"))
    monkeypatch.setattr(gpu, "_no_triton", lambda sizes: "its kernels need a GPU")
    for part in ("_pair", "_command"):  # tests/pair has one; a process has no pretend device
        monkeypatch.setattr(gpu, part, lambda suite: None)
    suite = gpu.run(torch.device("cuda:0"))
    assert suite.skipped == {"Triton's kernels": "its kernels need a GPU"}
    assert not suite.wrong
    assert "a pretend device" in suite.facts["device"]
    steps = suite.tables[-1]
    assert [table.title for table in suite.tables[:-1]] == ["Ceilings", "Prompts by kernel"]
    assert steps.rows
    assert all(value > 0 for row in steps.rows for value in row[3:-1])


def capture() -> None:
    graph: Any = None
    torch.cuda.CUDAGraph.capture_begin(graph)


@pytest.fixture
def suite(pretend: PretendDevice, monkeypatch: pytest.MonkeyPatch) -> gpu.Suite:
    """On the device, whose captures are only counted, without Triton's kernels."""
    monkeypatch.setattr(torch.cuda.CUDAGraph, "capture_begin", lambda graph: None)
    monkeypatch.setattr(gpu, "_no_triton", lambda sizes: "its kernels need a GPU")
    return gpu.Suite(Sizes(torch.device("cuda:0"), label="a pretend device"), str, inf)


@pytest.mark.parametrize("captures_later", [False, True])
def test_captures_while_steps_are_measured_are_wrong(
    suite: gpu.Suite, captures_later: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def measure(steps: Steps, prompt: Sequence[int]) -> Iterator[int]:
        if captures_later:
            capture()
        yield from measured(steps, prompt)

    @contextmanager
    def attending(models: SyntheticModels, *given: object) -> Iterator[Backend]:
        capture()
        yield models.lm.backend

    measured = Steps.measure
    monkeypatch.setattr(Steps, "measure", measure)
    monkeypatch.setattr(SyntheticModels, "_attending", attending)
    gpu._synthetic(suite, Roofline(1e9, 1e9))
    assert not suite.skipped
    assert suite.wrong == ["captures after load, in steps"] * captures_later
    assert [row[-1] for row in suite.tables[-1].rows] == [int(captures_later)]


@pytest.mark.parametrize("captures_later", [False, True])
def test_captures_while_the_pair_is_measured_are_wrong(
    suite: gpu.Suite, captures_later: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(options: session.Options) -> Iterator[Event]:
        capture()
        yield Working("reading")
        if captures_later:
            capture()
        yield Finished(benchmark, (), lambda: None)

    benchmark: Any = None

    monkeypatch.setattr(session, "run", run)
    monkeypatch.setattr(rows, "summarize", lambda benchmark: [])
    gpu._pair(suite)
    assert suite.wrong == ["captures after load, of the embedded pair"] * captures_later


def test_batches_are_timed_by_graphs(pretend: PretendDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    captured = by_graphs(monkeypatch)
    monkeypatch.setattr(synthetic_models, "use_checked_graphs", graph_check.use_checked_graphs)
    monkeypatch.setattr(synthetic_models, "PROMPT", 20)
    monkeypatch.setattr(synthetic_models, "TOKENS", 5)
    models = SyntheticModels.create(Sizes(torch.device("cuda:0")))
    found = list(batches(models, (1, 3)))
    assert [row["sequences"] for row in found] == [1, 3]
    assert all(row["tokens/s in all"] > 0 and row[LATER] == 0 for row in found)
    assert {1, 4} <= set(captured.rows)
    assert models.lm.forward_backend is None


def test_a_prompt_is_read_by_each_kernel_or_the_row_says_why_not(
    pretend: PretendDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pretend device has no cuDNN; its FlashAttention refuses float32, and here a kernel fails that has it."""

    def read(dtype: torch.dtype) -> dict[str, tuple[bool, str]]:
        models = SyntheticModels.create(Sizes(torch.device("cuda:0"), dtype=dtype))
        rows = list(prompts(models, fused=False))
        assert {row["prompt (tokens)"] for row in rows} == {24}
        return {str(row["attention"]): (row["seconds"] is not None, str(row["result"])) for row in rows}

    fine = (True, "")
    found = read(torch.float32)
    assert (found["the engine's choice"], found["memory-efficient"]) == (fine, fine)
    assert found["FlashAttention of torch"][1].startswith(
        "RuntimeError: FlashAttention has no kernel for torch.float32"
    )
    assert "_scaled_dot_product_cudnn_attention" in found["cuDNN"][1]

    def fails(*args: object, **options: object) -> None:
        raise RuntimeError("too many heads\nsays the driver")

    monkeypatch.setitem(pretend_device._EMULATED, torch.ops.aten._scaled_dot_product_efficient_attention, fails)
    found = read(torch.float16)
    assert (found["the engine's choice"], found["FlashAttention of torch"]) == (fine, fine)
    assert found["memory-efficient"] == (False, "RuntimeError: too many heads")
    assert not found["cuDNN"][0]


def test_the_fused_forward_reads_a_prompt_by_each_kernel(
    pretend: PretendDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    class Fused:
        def __init__(self, lm: LanguageModel) -> None:
            pass

        def read(self, inputs: ForwardInput, cache: KVCache) -> None:
            asked.append((inputs.tokens.shape[1], inputs.context.backend))
            raise RuntimeError("a stand-in")

    monkeypatch.setattr(synthetic_models, "FusedModel", Fused)
    monkeypatch.setattr(synthetic_models, "installed", lambda: (FLASH_ATTN,))
    models = SyntheticModels.create(Sizes(torch.device("cuda:0")))
    rows = list(prompts(models, fused=True))
    assert {row["result"] for row in rows} == {"RuntimeError: a stand-in"}
    assert [tokens for tokens, _ in asked] == [16] * 5
    chosen, *by_hybrid, package = (backend for _, backend in asked)
    assert (chosen, package) == (models.lm.backend, flash_attn)
    assert [backend.keywords["kernel"] for backend in by_hybrid] == ["cudnn", "flash", "efficient"]
    assert models.lm.forward_backend is None


def test_its_methods_replay_what_was_captured_at_load(
    presets: dict[str, Path], home: Path, pretend: PretendDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Gated and on every step, of two lengths; every text is plain decoding's."""
    short = tuple(replace(source, text=source.text[:6_000]) for source in texts.builtin()[:2])
    monkeypatch.setattr(texts, "builtin", lambda: short)
    capture, at_load = by_graphs(monkeypatch), set[int]()
    options = session.Options(
        preset=str(presets["one"]),
        lengths=(192, 256),
        docs=1,
        tokens=10,
        decoding="greedy",
        methods=("plain", "ngram", "self", "lm", "specextend", "standard"),
        device="cuda",
        dtype="float32",
        offline=True,
    )
    for event in session.run(options):
        if isinstance(event, Running):
            at_load.add(capture.captures)
    assert isinstance(event, Finished)
    assert event.wrong == ()
    assert {row.equal for row in summarize(event.benchmark) if row.compared} == {1}
    assert len(summarize(event.benchmark)) == 2 * 6
    assert at_load == {capture.captures}
    assert capture.replays > 2 * 6 * 4
