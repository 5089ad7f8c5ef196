"""Shared by all tests: which of them run, and on how many threads."""

from __future__ import annotations

import os

import pytest

# Tiny models gain nothing from a second thread, and threads that wait for each other on a busy machine lose a lot.
os.environ.setdefault("OMP_NUM_THREADS", "1")


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
