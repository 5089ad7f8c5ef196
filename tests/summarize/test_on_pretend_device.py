"""A document summarized on a device that is not the host: what `--device cuda` runs, without a GPU."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from specextend_cli.engine.attention import hybrid
from specextend_cli.engine.events import Accepted
from specextend_cli.errors import FitError
from tests.helpers.asked import asked
from tests.helpers.pretend_device import PretendDevice, pretend_device
from tests.summarize.scribe import document
from tests.summarize.tiny_preset import text


def told(preset: Path, device: str, **options: object) -> tuple[list[str], list[Accepted]]:
    """The chunk summaries and the summary, and the steps that wrote them."""
    with asked(model=preset, device=device, dtype="float32", cache=False, **options) as made:
        events = list(made.run(document(text(30))))
        assert made._generator is None or made._generator.target.lm.device.type == device
    summary = events[-1].summary
    return [*summary.chunk_summaries, summary.text], [event for event in events if isinstance(event, Accepted)]


@pytest.mark.parametrize("batch", [4, pytest.param(1, marks=pytest.mark.full)])
def test_chunk_summaries_and_the_summary(presets, pretend: PretendDevice, batch: int) -> None:
    there, steps = told(presets["one"], "cuda", batch=batch)
    assert len(there) > 4
    assert there == told(presets["one"], "cpu", batch=batch)[0]
    assert max(step.batch_size for step in steps) == batch


def test_a_kernel_that_failed_is_told_once(presets, pretend: PretendDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    failures = {("cuda", torch.float16, 64): "cuDNN Frontend error: no valid execution plans\nand more"}
    monkeypatch.setattr(hybrid, "_failures", failures)
    with asked(model=presets["one"], device="cuda", dtype="float32", cache=False) as made:
        told = [made.summarize(document(text(4))).warnings for _ in range(2)]
    assert [len([line for line in lines if "cuDNN" in line]) for lines in told] == [1, 0]
    assert "(cuDNN Frontend error: no valid execution plans): PyTorch's reads prompts" in "".join(told[0])


def test_the_device_s_memory_is_what_counts(presets) -> None:
    with pretend_device(memory=100_000), pytest.raises(FitError, match="does not fit into memory") as refused:
        told(presets["one"], "cuda")
    assert "0.0 GB are free on cuda" in refused.value.why
