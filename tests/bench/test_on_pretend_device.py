"""What the GPU's suite does on a device: everything but Triton's kernels, at a rehearsal's sizes."""

from __future__ import annotations

import pytest
import torch

from specextend_cli.bench.suite import gpu
from specextend_cli.bench.suite.device_info import Sizes
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
