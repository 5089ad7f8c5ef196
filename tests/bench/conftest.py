"""Caches of the test's own, and the command line in this process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from specextend_cli.models.presets import load_preset
from specextend_cli.models.tokens import TextEncoder
from specextend_cli.summarize.prompts import PromptBuilder


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Caches and configuration of the test's own."""
    for kind in ("cache", "config"):
        monkeypatch.setenv(f"XDG_{kind.upper()}_HOME", str(tmp_path / kind))
    for name in ("HF_HUB_OFFLINE", "SPECEXTEND_MODEL"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    return tmp_path


@pytest.fixture
def prompter(presets: dict[str, Path]) -> PromptBuilder:
    """Of the tiny pair, which is not loaded."""
    directory = presets["one"].parent / "target"
    return PromptBuilder(load_preset(presets["one"]), TextEncoder.of(directory), directory)


@pytest.fixture
def models(presets: dict[str, Path], home: Path):
    """The tiny pair, loaded in float32."""
    from specextend_cli.bench.models import Models
    from specextend_cli.models.sources import fetch_pair
    from specextend_cli.runtime.options import Engine

    preset = load_preset(presets["one"])
    return Models(preset, fetch_pair(preset), Engine(dtype="float32"))


@pytest.fixture
def cli(
    cli: Callable[..., SimpleNamespace], home: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., SimpleNamespace]:
    """Built-in documents are few and short, as encoding takes a short run's time."""
    from specextend_cli.bench import prompts

    short = tuple(replace(source, text=source.text[:6_000]) for source in prompts.builtin()[:4])
    monkeypatch.setattr(prompts, "builtin", lambda: short)
    return cli
