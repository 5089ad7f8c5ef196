"""tests/scripts/gpu.py: rehearsed as a program where little is installed, and measured on a pretend device."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from math import inf
from pathlib import Path

import pytest
import torch

from specextend_cli.bench import experiments
from specextend_cli.bench.results import Measured
from specextend_cli.engine.cuda import graph_check
from tests import ROOT
from tests.bench.made_benchmark import benchmark, record
from tests.helpers.graphs_on_pretend_device import by_graphs
from tests.helpers.pretend_device import PretendDevice
from tests.scripts import gpu, gpu_models
from tests.scripts.gpu_kernels import RIGHT, verdict
from tests.scripts.gpu_models import Sizes, sizes_for

BARE = """
import runpy, sys
for name in ("typer", "rich", "pydantic", "pypdf", "pypdfium2", "platformdirs", "tiktoken", "psutil", "lxml", "gguf"):
    sys.modules[name] = None
runpy.run_module("tests.scripts.gpu", run_name="__main__", alter_sys=True)
"""
FIGURES = {
    *("4 nodes (ms)", "4 nodes, times a plain step", "eight levels (ms)", "eight levels, times a plain step"),
    *("plain step without graphs (ms)", "drafts that accept three, times a step without graphs"),
}
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
    figures, _, kernels, layer, steps, prompts, *of_small = rows.values()
    assert len(of_small) == 2
    assert {row["figure"] for row in figures} == {"plain step (ms)", *FIGURES, "reading (s)"}
    assert all(row["device"] == "no GPU: a rehearsal" for of in rows.values() for row in of)
    assert list(found["skipped"]) == ["the embedded pair", "the command"]
    assert len(kernels) == 2 * 4
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


@pytest.mark.full
def test_every_figure_of_the_documentation(pretend: PretendDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside its aim, if there is one, which says whether it is met."""
    captured = by_graphs(monkeypatch)
    monkeypatch.setattr(gpu_models, "use_checked_graphs", graph_check.use_checked_graphs)
    monkeypatch.setattr(gpu_models, "PROMPT", 20)
    monkeypatch.setattr(gpu_models, "TOKENS", 5)
    sizes = Sizes(torch.device("cuda:0"), label="a pretend device", model="8B", nodes=60)
    monkeypatch.setattr(gpu, "sizes_for", lambda device: sizes)
    monkeypatch.setattr(Sizes, "of_small", lambda sizes: replace(sizes, model="135M"))
    monkeypatch.setattr(gpu, "no_triton", lambda sizes: "")
    for part in ("_kernels", "_timings"):
        monkeypatch.setattr(gpu, part, lambda *given: None)
    pair = benchmark(record(length=512), record("specextend", length=512, decode_seconds=6.0))
    monkeypatch.setattr(experiments, "run", lambda options: iter([Measured(pair.records[0], 1, 1), pair]))
    done = subprocess.CompletedProcess([], 0, "", "")
    monkeypatch.setattr(gpu.subprocess, "run", lambda *given, **options: done)
    suite = gpu.run(torch.device("cuda:0"))
    assert not suite.skipped
    assert not suite.wrong
    assert {1, 4, 16, 32} <= set(captured.rows)
    first, ceilings, *_ = suite.tables
    assert (first.title, ceilings.title) == ("Figures at commit unknown", "Ceilings")
    found = {(row["model"], row["figure"]): row for row in suite.figures}
    for model in ("8B", "135M"):
        named = {name.replace("4 nodes", "60 nodes") for name in FIGURES}
        sequences = {f"{n} sequences, tokens/s" for n in (1, 4, 16, 32)}
        assert {name for of, name in found if of == model} >= {*named, *sequences, "reading (s)", "plain step (ms)"}
    assert gpu.AIMS.keys() <= found.keys()
    for row in found.values():
        assert isinstance(row["measured"], float)
        assert row["measured"] > 0
        assert (row["aim"] != "") == (row["met"] != "") == ((row["model"], row["figure"]) in gpu.AIMS)
    speedup = found["135M", "drafting by the embedded pair, times plain"]
    assert (speedup["measured"], speedup["met"]) == (1.5, "yes")
    kernels = next(table for table in suite.tables if table.title == "Prompts by kernel, 8B")
    results = {(row[1], row[3]): (row[4] is not None, row[6]) for row in kernels.rows}
    assert results["8B", "the engine's choice"] == (True, "")
    assert not results["8B", "cuDNN"][0]  # the pretend device has none


@pytest.mark.parametrize(
    ("value", "aim", "met"), [(1.1, "≤ 1.12", "yes"), (1.2, "≤ 1.12", "no"), (8.0, "≥ 8", "yes"), (None, "≥ 8", "")]
)
def test_aims(value: float | None, aim: str, met: str) -> None:
    assert gpu.is_met(value, aim) == met
