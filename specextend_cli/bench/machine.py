"""The machine of a run: its hardware and software, peak memory, and the load of other processes."""

from __future__ import annotations

import platform
import resource
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from time import monotonic

import psutil
import torch

from specextend_cli import __version__
from specextend_cli.bench.results import Machine
from specextend_cli.runtime.machine import processor_name

_CLEAR, _STATUS = Path("/proc/self/clear_refs"), Path("/proc/self/status")
_NOT_BUSY = ("idle", "iowait", "guest", "guest_nice")  # guests are counted in user time already


def describe(device: torch.device) -> Machine:
    """Hardware and software of this process."""
    return Machine(
        processor=processor_name() or platform.machine(),
        device=torch.cuda.get_device_name(device) if device.type == "cuda" else device.type,
        threads=torch.get_num_threads(),
        python=platform.python_version(),
        torch=torch.__version__,
        transformers=version("transformers"),
        version=__version__,
        commit=_commit(),
    )


def _commit() -> str | None:
    """The checkout's commit, with "+" if tracked files were changed; None outside a checkout."""
    root = Path(__file__).parents[2]
    if not (root / ".git").exists():
        return None

    command = ["git", "-C", str(root), "describe", "--always", "--exclude=*", "--abbrev=12", "--dirty=+"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None


def reset_peak(device: torch.device) -> None:
    """Start a new measurement of peak memory. On systems without /proc, `peak` is the whole process's so far."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        return
    with suppress(OSError):
        _CLEAR.write_text("5")  # Linux resets the high-water mark to what is resident now


def peak(device: torch.device) -> int:
    """Peak bytes since `reset_peak`."""
    if device.type == "cuda":
        return int(torch.cuda.max_memory_allocated(device))
    try:
        line = next(line for line in _STATUS.read_text().splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) * 1024
    except (OSError, StopIteration, ValueError, IndexError):
        used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return used if sys.platform == "darwin" else used * 1024


@dataclass(frozen=True, slots=True)
class Load:
    """`others`: mean number of the `cores` that other processes kept busy. `averages`: the one-minute load average
    before and after, this process included.
    """

    cores: int
    others: float
    averages: tuple[float, float]

    @property
    def busy(self) -> bool:
        """True if timings have probably suffered."""
        return self.others >= 0.25


class LoadMeter:
    """Measures from its construction on."""

    def __init__(self) -> None:
        self._before = _times()

    def load(self) -> Load:
        """The load since construction."""
        (began, others_before, average), (ended, others_after, after) = self._before, _times()
        cores = psutil.cpu_count() or 1
        others = (others_after - others_before) / max(ended - began, 1e-3)
        return Load(cores, min(max(others, 0.0), float(cores)), (average, after))


def _times() -> tuple[float, float, float]:
    """The clock, seconds that other processes kept cores busy, and the load average."""
    own = psutil.Process().cpu_times()
    busy = sum(seconds for kind, seconds in psutil.cpu_times()._asdict().items() if kind not in _NOT_BUSY)
    return monotonic(), busy - own.user - own.system, psutil.getloadavg()[0]
