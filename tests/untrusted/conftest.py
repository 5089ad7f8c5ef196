"""Presets, caches, checkpoints and package indexes that somebody else made, and a home of the test's own."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where caches and configuration lie: no test sees or touches the user's."""
    home = tmp_path / "home"
    monkeypatch.setattr("platformdirs.user_cache_dir", lambda name: str(home / "cache" / name))
    monkeypatch.setattr("platformdirs.user_config_dir", lambda name: str(home / "config" / name))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(home / "hub"))
    for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    return home
