"""The GPU's suite, rehearsed: the whole command where nothing but torch and transformers is installed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from time import monotonic
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from specextend_cli.bench.suite import gpu
from specextend_cli.bench.suite.device_info import sizes_for
from specextend_cli.bench.suite.kernels import RIGHT, verdict

BARE = """
import runpy, sys
for name in ("typer", "rich", "pydantic", "pypdf", "pypdfium2", "platformdirs", "tiktoken", "psutil", "lxml", "gguf"):
    sys.modules[name] = None
runpy.run_module("specextend_cli.bench.suite", run_name="__main__")
"""
TRITON = gpu._version("triton")
WITHOUT_TRITON = TRITON == "not installed" or tuple(map(int, TRITON.split(".")[:2])) < (3, 7)


@pytest.fixture(scope="module")
def rehearsed(tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    folder = tmp_path_factory.mktemp("suite")
    command = [sys.executable, "-c", BARE, "--json"]
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "HF_HUB_OFFLINE": "1", "XDG_CACHE_HOME": str(folder)}
    environment.pop("TRITON_INTERPRET", None)
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return SimpleNamespace(err=done.stderr, of=json.loads(done.stdout))


def commanded(**options: Any) -> dict[str, Any]:
    """The row of the command's table."""
    suite = gpu.Suite(sizes_for(torch.device("cpu")), str, monotonic())
    gpu._command(suite, **options)
    (table,) = suite.tables
    (row,) = table.rows
    return dict(zip(table.header, row, strict=True))


@pytest.mark.full
def test_it_rehearses_everything_and_says_that_these_are_no_gpus_figures(rehearsed: SimpleNamespace) -> None:
    titles = [table["title"] for table in rehearsed.of["tables"]]
    kernels = [] if WITHOUT_TRITON else ["Triton's kernels against the reference", "A layer's attention"]
    assert titles == ["Ceilings", *kernels, "Prompts by kernel", "Steps of a tiny model, drafted for by a tiny head"]
    for table in rehearsed.of["tables"]:
        assert "no figure in it is a GPU's" in table["note"]
        assert {row[0] for row in table["rows"]} == {"no GPU: a rehearsal"}
    assert gpu.REHEARSAL in rehearsed.err
    missing = ["Triton's kernels"] if WITHOUT_TRITON else []
    assert list(rehearsed.of["skipped"]) == [*missing, "the embedded pair", "the command"]


@pytest.mark.full
@pytest.mark.skipif(WITHOUT_TRITON, reason="needs triton")
def test_every_kernel_is_compared_with_the_reference(rehearsed: SimpleNamespace) -> None:
    table = rehearsed.of["tables"][1]
    rows = [dict(zip(table["header"], row, strict=True)) for row in table["rows"]]
    assert {row["verdict"] for row in rows} == {"right"}
    assert {row["cases"] for row in rows} == {2}
    assert len(rows) == 2 * 5
    assert all(row["largest difference"] <= row["tolerated"] for row in rows)


@pytest.mark.full
def test_steps_are_measured_at_every_length(rehearsed: SimpleNamespace) -> None:
    steps = rehearsed.of["tables"][-1]
    lengths = sizes_for(torch.device("cpu")).lengths
    assert [row[1] for row in steps["rows"]] == [n for n in lengths for _ in range(1 if WITHOUT_TRITON else 2)]
    assert all(value > 0 for row in steps["rows"] for value in row[3:-1])


@pytest.mark.full
def test_a_prompt_is_read_by_the_fused_forward(rehearsed: SimpleNamespace) -> None:
    (table,) = (table for table in rehearsed.of["tables"] if table["title"] == "Prompts by kernel")
    assert ("transformers' layers" if WITHOUT_TRITON else "the fused forward") in table["note"]
    ((_, tokens, kernel, seconds, result),) = table["rows"]
    assert (tokens, kernel, result) == (24, "the engine's choice", "")
    assert seconds > 0


@pytest.mark.full
def test_the_command_is_a_process_of_its_own(presets: dict[str, Path], home: Path) -> None:
    row = commanded(model=str(presets["one"]))
    assert row["pages"] == 1
    assert row["seconds"] > 0
    for part in ("exit code 0; start ", "to the first words: starting", "reading   ", "writing   "):
        assert part in row["result"]


def test_a_command_that_fails_says_why(home: Path) -> None:
    row = commanded(model=str(home / "none.toml"))
    assert row["seconds"] is None
    assert row["result"].startswith("exit code 2; error: ")
    assert "none.toml" in row["result"]


def test_a_command_that_hangs_is_ended(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sleeper = home / "python"
    sleeper.write_text("#!/bin/sh\nexec sleep 60\n")
    sleeper.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(sleeper))
    row = commanded(limit=1.0)
    assert (row["seconds"], row["result"]) == (None, "it took longer than 1 s")


@pytest.mark.parametrize(
    ("error", "failure", "right"), [(0.1, "", True), (0.3, "", False), (float("nan"), "", False), (0.1, "boom", False)]
)
def test_what_is_right(error: float, failure: str, right: bool) -> None:
    assert (verdict(error, 0.2, failure) == RIGHT) == right


def test_a_wrong_kernel_fails_the_command_after_its_result(
    cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def found(*_: object):
        yield {"kernel": "tree attention", "number format": "float16", "verdict": verdict(2.0, 0.1, "")}

    monkeypatch.setattr(gpu, "check", found)
    monkeypatch.setattr(gpu, "_no_triton", lambda sizes: "")
    for part in ("_timings", "_synthetic", "_pair", "_command"):
        monkeypatch.setattr(gpu, part, lambda *_: None)
    done = cli("bench", "--suite", "gpu", "--device", "cpu", "-f", "md", "-q", "--report", tmp_path)
    assert done.returncode == 1
    assert "WRONG" in done.stdout
    assert "1 check failed" in done.stderr
    assert "tree attention in float16" in done.stderr
    assert gpu.REHEARSAL in done.stderr
    assert "no GPU: a rehearsal" in (tmp_path / "index.html").read_text()


def test_when_time_is_up_nothing_new_is_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "_no_triton", lambda sizes: "not here")
    suite = gpu.run(torch.device("cpu"), seconds=-1)
    assert [table.title for table in suite.experiment.tables] == ["Ceilings"]
    assert set(suite.skipped.values()) == {"time was up", "not here"}


@pytest.mark.parametrize(
    "wrong", [("--experiment", "costs"), ("--methods", "plain"), ("--device", "tpu"), ("--device", "cuda")]
)
def test_what_does_not_go_together(cli, wrong: tuple[str, ...]) -> None:
    if wrong[1] == "cuda" and torch.cuda.is_available():
        pytest.skip("there is one")
    assert cli("bench", "--suite", "gpu", *wrong).returncode == 2
