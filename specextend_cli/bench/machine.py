"""What a run's figures belong to."""

from __future__ import annotations

import platform
import subprocess
from importlib.metadata import version
from pathlib import Path

import torch

from specextend_cli import __version__
from specextend_cli.bench.records import Machine


def describe(device: torch.device) -> Machine:
    """This machine, as far as it says."""
    return Machine(
        processor=_processor(),
        device=torch.cuda.get_device_name(device) if device.type == "cuda" else device.type,
        threads=torch.get_num_threads(),
        python=platform.python_version(),
        torch=torch.__version__,
        transformers=version("transformers"),
        version=__version__,
        commit=_commit(),
    )


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def _commit() -> str | None:
    """The checkout's commit, "+" where files were changed since; None where this is no checkout of ours."""
    root = Path(__file__).parents[2]
    if not (root / ".git").exists():
        return None

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(root), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()

    try:
        changed = git("status", "--porcelain", "--untracked-files=no")
        return git("rev-parse", "--short=12", "HEAD") + ("+" if changed else "")
    except (OSError, subprocess.SubprocessError):
        return None
