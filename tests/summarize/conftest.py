"""Caches of each test's own."""

from __future__ import annotations

from pathlib import Path

import pytest


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
