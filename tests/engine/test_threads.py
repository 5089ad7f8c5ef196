"""torch's threads are lowered to what the process has, and left alone where the user chose."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest
import torch

from specextend_cli.runtime import devices as threads


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"cpu.max": "150000 100000\n"}, 2),
        ({"cpu.max": "5000 100000\n"}, 1),
        ({"cpu.max": "max 100000\n"}, None),
        ({"cpu.max": "nonsense"}, None),
        ({}, None),
    ],
)
def test_a_containers_quota_bounds_the_threads(tmp_path: Path, files: dict[str, str], expected: int | None) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert threads.share(tmp_path) == expected


@pytest.mark.parametrize(
    ("has", "cores", "container", "chosen", "expected"),
    [(8, 4, None, "", 4), (8, 8, 2, "", 2), (4, 8, None, "", 4), (8, 4, 2, "6", 8), (8, None, None, "", 8)],
)
def test_threads_fit_cores_quota_and_environment(
    monkeypatch: pytest.MonkeyPatch, has: int, cores: int | None, container: int | None, chosen: str, expected: int
) -> None:
    now = [has]
    monkeypatch.setattr(torch, "get_num_threads", lambda: now[-1])
    monkeypatch.setattr(torch, "set_num_threads", now.append)
    monkeypatch.setattr(psutil, "cpu_count", lambda logical: cores)
    monkeypatch.setattr(threads, "share", lambda groups: container)
    monkeypatch.setenv("OMP_NUM_THREADS", chosen)
    monkeypatch.delenv("MKL_NUM_THREADS", raising=False)
    assert threads.fit_threads() == now[-1] == expected
