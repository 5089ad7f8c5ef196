"""The benchmark on a device: its methods by CUDA graphs, and the GPU's suite but for Triton's kernels."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from specextend_cli.bench import session, texts
from specextend_cli.bench.events import Finished, Running
from specextend_cli.bench.rows import summarize
from specextend_cli.bench.suite import gpu
from specextend_cli.bench.suite.device_info import Sizes
from tests.helpers.graphs_on_pretend_device import by_graphs
from tests.helpers.pretend_device import PretendDevice


@pytest.mark.full
def test_the_suite_s_model_is_measured(pretend: PretendDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "sizes_for", lambda device: Sizes(device, label="a pretend device"))
    monkeypatch.setattr(gpu, "_no_triton", lambda sizes: "its kernels need a GPU")
    monkeypatch.setattr(gpu, "_pair", lambda suite: None)  # tests/pair has one
    suite = gpu.run(torch.device("cuda:0"))
    assert suite.skipped == {"Triton's kernels": "its kernels need a GPU"}
    assert not suite.wrong
    assert "a pretend device" in suite.facts["device"]
    steps = suite.tables[-1]
    assert len(suite.tables) == 2
    assert steps.rows
    assert all(value > 0 for row in steps.rows for value in row[3:])


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
