"""The programs beside the presets, as modules."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from tests import ROOT


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Any]:
    """`program("sentence-ranker/fit")` imports that file of `presets/`."""

    def load(path: str) -> ModuleType:
        directory, _, name = path.partition("/")
        monkeypatch.syspath_prepend(ROOT / "presets" / directory)
        return importlib.import_module(name)

    return load
