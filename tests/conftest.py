"""Shared by all tests: which of them run, and on how many threads."""

from __future__ import annotations

import os

import pytest

# Tiny models gain nothing from a second thread, and threads that wait for each other on a busy machine lose a lot.
os.environ.setdefault("OMP_NUM_THREADS", "1")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """`gpu` runs only where there is one."""
    if any("gpu" in item.keywords for item in items) and not _has_gpu():
        for item in items:
            if "gpu" in item.keywords:
                item.add_marker(pytest.mark.skip(reason="no CUDA device"))


def _has_gpu() -> bool:
    import torch

    return torch.cuda.is_available()
