"""Caches of each test's own, and the command line with an invented summarizer."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.cli import run_fake

WORDS = "A harbour is a place where ships stay.\n"


@pytest.fixture(autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No test sees or touches the user's caches, configuration or environment; child processes inherit it."""
    folder = tmp_path_factory.mktemp("home")
    for kind in ("cache", "config"):
        monkeypatch.setenv(f"XDG_{kind.upper()}_HOME", str(folder / kind))
    # Else a run on a terminal compiles, measures the machine and asks: see test_choice.
    configuration = folder / "config" / "specextend" / "config.toml"
    configuration.parent.mkdir(parents=True)
    configuration.write_text('model = "smollm2-135m"\n')
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    for name in ("HF_HUB_OFFLINE", "SPECEXTEND_MODEL", "SPECEXTEND_DEVICE", "SPECEXTEND_PDF_PASSWORD"):
        monkeypatch.setenv(name, "")  # so that it is restored, whatever the command sets
        monkeypatch.delenv(name)
    return folder


@pytest.fixture
def document(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A short text in the current directory."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "harbour.txt"
    path.write_text(WORDS)
    return path


@pytest.fixture
def fake(cli: Callable[..., SimpleNamespace], monkeypatch: pytest.MonkeyPatch) -> Callable[..., SimpleNamespace]:
    """The same with the invented summarizer and its settings, and with a pipe as stdin."""

    def call(*arguments: object, stdin: str = "", **settings: Any) -> SimpleNamespace:
        if arguments[0] == "compare":
            monkeypatch.setattr("specextend_cli.bench.comparison.Summarizer", run_fake.Summarizer)
        monkeypatch.setitem(sys.modules, run_fake.MODULE, run_fake.module(**settings))
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        return cli(*arguments)

    return call
