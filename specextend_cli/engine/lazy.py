"""Modules that are imported when something of theirs is used, so that tables of names import no torch."""

from __future__ import annotations

from importlib import import_module
from typing import Any


class LazyModule:
    """Stands for the module called `name`, whose attributes it has."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module(self._name), name)
