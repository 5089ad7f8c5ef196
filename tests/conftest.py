"""Shared by all tests: where the helpers lie, and a machine that is left as it was found."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

# Tiny models gain nothing from a second thread, and threads that wait for each other on a busy machine lose a lot.
os.environ.setdefault("OMP_NUM_THREADS", "1")

HERE = Path(__file__).parent
for folder in (HERE, HERE / "engine"):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """`slow` runs only when asked for; `gpu` only where there is one."""
    asked = config.getoption("-m")
    for item in items:
        if "slow" in item.keywords and "slow" not in asked:
            item.add_marker(pytest.mark.skip(reason="slow: run with -m slow"))
        if "gpu" in item.keywords and not _has_gpu():
            item.add_marker(pytest.mark.skip(reason="no CUDA device"))


def _has_gpu() -> bool:
    import torch

    return torch.cuda.is_available()
