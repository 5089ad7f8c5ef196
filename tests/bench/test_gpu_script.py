"""tests/scripts/gpu.py: rehearsed as a program where little is installed, and measured on a pretend device."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from math import inf
from pathlib import Path

import pytest
import torch

from specextend_cli.engine.cuda import graph_check
from tests import ROOT
from tests.helpers.graphs_on_pretend_device import by_graphs
from tests.helpers.pretend_device import PretendDevice
from tests.scripts import gpu, gpu_models
from tests.scripts.gpu_kernels import RIGHT, verdict
from tests.scripts.gpu_models import LATER, Sizes, SyntheticModels, batches, sizes_for

BARE = """
import runpy, sys
for name in ("typer", "rich", "pydantic", "pypdf", "pypdfium2", "platformdirs", "psutil", "lxml", "gguf"):
    sys.modules[name] = None
runpy.run_module("tests.scripts.gpu", run_name="__main__", alter_sys=True)
"""
TRITON = gpu._version("triton")
WITHOUT_TRITON = TRITON == "not installed" or tuple(map(int, TRITON.split(".")[:2])) < (3, 7)


@pytest.mark.full
@pytest.mark.skipif(WITHOUT_TRITON, reason="needs a triton that can interpret")
def test_it_rehearses_everything_where_little_is_installed(tmp_path: Path) -> None:
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "HF_HUB_OFFLINE": "1", "XDG_CACHE_HOME": str(tmp_path)}
    environment.pop("TRITON_INTERPRET", None)
    command = [sys.executable, "-c", BARE, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False, timeout=240, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert gpu.REHEARSAL in done.stderr
    found = json.loads(done.stdout)
    rows = {
        table["title"]: [dict(zip(table["header"], row, strict=True)) for row in table["rows"]]
        for table in found["tables"]
    }
    _, kernels, layer, steps, prompts = rows.values()
    assert all(row["device"] == "no GPU: a rehearsal" for of in rows.values() for row in of)
    assert list(found["skipped"]) == ["the embedded pair", "the command"]
    assert len(kernels) == 2 * 5
    for row in kernels:
        assert (row["verdict"], row["cases"]) == (RIGHT, 2)
        assert row["largest difference"] <= row["tolerated"]
    assert all(row["eager (µs)"] > 0 for row in layer)
    assert [row["attention"] for row in steps] == ["triton", "auto"]
    assert all(row["plain step (ms)"] > 0 < row["drafting (ms)"] for row in steps)
    assert [(row["attention"], row["result"]) for row in prompts] == [("the engine's choice", "")]


@pytest.mark.parametrize(
    ("error", "failure", "right"), [(0.1, "", True), (0.3, "", False), (float("nan"), "", False), (0.1, "boom", False)]
)
def test_what_is_right(error: float, failure: str, right: bool) -> None:
    assert (verdict(error, 0.2, failure) == RIGHT) == right


def test_a_wrong_kernel_is_said_and_one_part_s_failure_is_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    def found(sizes: Sizes) -> Iterator[dict[str, object]]:
        yield {"kernel": "tree attention", "number format": "float16", "verdict": verdict(2.0, 0.1, "")}

    monkeypatch.setattr(gpu, "check", found)
    suite = gpu.Suite(sizes_for(torch.device("cpu")), inf)
    suite.attempt("kernels", lambda: gpu._kernels(suite))
    suite.attempt("another", lambda: 1 / 0)
    assert suite.wrong == ["tree attention in float16"]
    assert suite.skipped == {"another": "ZeroDivisionError: division by zero"}
    assert "WRONG" in gpu.render(suite, json=False)
    suite.ends = -1
    suite.attempt("late", lambda: None)
    assert suite.skipped["late"] == "time was up"


# ------------------------------------------------------------------------------------------- on a pretend device


@pytest.mark.full
def test_steps_and_prompts_are_measured_on_a_device(pretend: PretendDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "sizes_for", lambda device: Sizes(device, label="a pretend device"))
    monkeypatch.setattr(gpu, "no_triton", lambda sizes: "its kernels need a GPU")
    for part in ("_pair", "_command"):  # tests/pair has one; a process has no pretend device
        monkeypatch.setattr(gpu, part, lambda suite: None)
    suite = gpu.run(torch.device("cuda:0"))
    assert suite.skipped == {"Triton's kernels": "its kernels need a GPU"}
    assert not suite.wrong
    ceilings, steps, read = suite.tables
    assert ceilings.title == "Ceilings"
    assert all(value > 0 for row in steps.rows for value in row[3:-1])
    results = {row[2]: (row[3] is not None, row[4]) for row in read.rows}
    assert results["the engine's choice"] == (True, "")
    assert not results["cuDNN"][0]  # the pretend device has none


@pytest.mark.full
def test_batches_are_timed_by_graphs(pretend: PretendDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    captured = by_graphs(monkeypatch)
    monkeypatch.setattr(gpu_models, "use_checked_graphs", graph_check.use_checked_graphs)
    monkeypatch.setattr(gpu_models, "PROMPT", 20)
    monkeypatch.setattr(gpu_models, "TOKENS", 5)
    models = SyntheticModels.create(Sizes(torch.device("cuda:0")))
    found = list(batches(models, (1, 3)))
    assert [row["sequences"] for row in found] == [1, 3]
    assert all(row["tokens/s in all"] > 0 and row[LATER] == 0 for row in found)
    assert {1, 4} <= set(captured.rows)
    assert models.lm.forward_backend is None
