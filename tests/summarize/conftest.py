"""Tiny presets, caches of the test's own, and a writer that answers without a model."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.summarize import tiny_preset


@pytest.fixture(scope="session")
def presets(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return tiny_preset.make(tmp_path_factory.mktemp("presets"))


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> Iterator[None]:
    """Threads cost a tiny model more than they give."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Caches and configuration of the test's own."""
    for kind in ("cache", "config"):
        monkeypatch.setenv(f"XDG_{kind.upper()}_HOME", str(tmp_path / kind))
    return tmp_path


@pytest.fixture
def store(home: Path) -> Path:
    """Where chunk summaries are kept."""
    return home / "cache" / "specextend" / "texts.sqlite"
