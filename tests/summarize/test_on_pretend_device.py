"""A document summarized on a device that is not the host: what `--device cuda` runs, without a GPU."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from specextend_cli.engine.attention import hybrid
from specextend_cli.engine.cuda import capture as capture_module
from specextend_cli.engine.events import Accepted
from specextend_cli.engine.target import Target
from specextend_cli.errors import DeviceError, FitError
from specextend_cli.runtime.loading_thread import Stage
from tests.helpers.asked import asked
from tests.helpers.graphs_on_pretend_device import by_graphs
from tests.helpers.pretend_device import DEVICE, PretendDevice, pretend_device
from tests.summarize.scribe import document
from tests.summarize.tiny_preset import text


def told(preset: Path, device: str, **options: object) -> tuple[list[str], list[Accepted]]:
    """The chunk summaries and the summary, and the steps that wrote them."""
    events = run(preset, device, **options)
    summary = events[-1].summary
    return [*summary.chunk_summaries, summary.text], [event for event in events if isinstance(event, Accepted)]


def run(preset: Path, device: str, *, length: int = 30, **options: object) -> list[Any]:
    with asked(model=preset, device=device, dtype="float32", cache=False, **options) as made:
        events = list(made.run(document(text(length))))
        assert made._generator is None or made._generator.target.lm.device.type == device
    return events


def test_chunk_summaries_and_the_summary(presets, pretend: PretendDevice) -> None:
    there, steps = told(presets["one"], "cuda", batch=4)
    assert len(there) > 4
    assert there == told(presets["one"], "cpu", batch=4)[0]
    assert max(step.batch_size for step in steps) == 4


def test_a_kernel_that_failed_is_told_once(presets, pretend: PretendDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    failures = {("cuda", torch.float16, 64): "cuDNN Frontend error: no valid execution plans\nand more"}
    monkeypatch.setattr(hybrid, "_failures", failures)
    with asked(model=presets["one"], device="cuda", dtype="float32", cache=False) as made:
        told = [made.summarize(document(text(4))).warnings for _ in range(2)]
    assert [len([line for line in lines if "cuDNN" in line]) for lines in told] == [1, 0]
    assert "(cuDNN Frontend error: no valid execution plans): PyTorch's reads prompts" in "".join(told[0])


def failing(error: Exception) -> Callable[..., None]:
    """A function that fails."""

    def fail(*given: object, **options: object) -> None:
        raise error

    return fail


def test_without_graphs_the_text_is_the_same(presets, pretend: PretendDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    """What stands in their way is said once; `test_graph_check` has all that may."""
    expected = told(presets["one"], "cpu", batch=1, length=8)[0]
    by_graphs(monkeypatch).begin = failing(torch.OutOfMemoryError("CUDA out of memory"))
    events = run(presets["one"], "cuda", batch=1, length=8)
    assert [*events[-1].summary.chunk_summaries, events[-1].summary.text] == expected
    said = [event.name for event in events if isinstance(event, Stage) and "graph" in event.name]
    why = "runs without CUDA graphs: memory: CUDA out of memory"
    assert said == [f"{name} {why}" for name in ("the model", "the draft model")]


@pytest.mark.parametrize("batch", [1, 4])
def test_every_replay_is_in_a_turn(
    presets, pretend: PretendDevice, monkeypatch: pytest.MonkeyPatch, batch: int
) -> None:
    """From its inputs until its results were read no other thread may replay."""
    turn: Any = capture_module.turn(DEVICE)
    replays = list[bool]()
    by_graphs(monkeypatch).end = lambda body, result: replays.append(turn._lock._is_owned())
    run(presets["one"], "cuda", batch=batch, length=8)
    assert len(replays) > 20
    assert all(replays)


@pytest.mark.parametrize("at_load", [True, False])
def test_a_device_that_fails_ends_the_run(
    presets, pretend: PretendDevice, monkeypatch: pytest.MonkeyPatch, at_load: bool
) -> None:
    """From then on it says so whenever it is asked."""
    captured, said = by_graphs(monkeypatch), "CUDA error: an illegal memory access was encountered"

    def fail(*given: object, **options: object) -> None:
        monkeypatch.setattr(torch.cuda, "synchronize", failing(RuntimeError(f"{said}\nCompile with DSA")))
        raise RuntimeError("Triton Error [CUDA]: an illegal memory access") if at_load else torch.AcceleratorError(said)

    if at_load:
        captured.begin = fail
    else:
        monkeypatch.setattr(Target, "verify", fail)
    with pytest.raises(DeviceError) as failed:
        run(presets["one"], "cuda", batch=1)
    assert failed.value.why == said
    assert "SPECEXTEND_GRAPHS=0" in failed.value.fix


def test_its_memory_is_what_counts_and_what_fits_without_graphs_is_said(
    presets, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pretend_device(memory=100_000), pytest.raises(FitError, match="does not fit into memory") as refused:
        told(presets["one"], "cuda")
    assert "0.0 GB are free on cuda" in refused.value.why
    expected = told(presets["one"], "cpu", batch=1, length=8)[0]
    with pretend_device(memory=200 << 20):
        with pytest.raises(FitError) as refused:
            run(presets["one"], "cuda", batch=1)
        assert refused.value.fix == "SPECEXTEND_GRAPHS=0 runs it without CUDA graphs"
        monkeypatch.setenv("SPECEXTEND_GRAPHS", "0")
        assert told(presets["one"], "cuda", batch=1, length=8)[0] == expected
