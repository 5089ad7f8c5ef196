"""The machine of a run: its hardware and software, and the load of other processes."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from importlib.metadata import version
from time import monotonic
from typing import TypeAlias

import psutil
import torch

from specextend_cli import __version__
from specextend_cli.humanize import format_many
from specextend_cli.runtime.devices import processor_name

_NOT_BUSY = ("idle", "iowait", "guest", "guest_nice")  # guests are counted in user time already
Times: TypeAlias = tuple[float, float, float]


def describe(device: torch.device) -> dict[str, str]:
    """Hardware and software of this process, by name, in display order."""
    return {
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else device.type,
        "processor": f"{processor_name() or platform.machine()}, {format_many(torch.get_num_threads(), 'thread')}",
        "software": (
            f"specextend {__version__}, Python {platform.python_version()}, torch {torch.__version__}, "
            f"transformers {version('transformers')}"
        ),
    }


@dataclass(frozen=True, slots=True)
class Load:
    """`others`: mean number of the `cores` that other processes kept busy. `averages`: the one-minute load average
    before and after, this process included.
    """

    cores: int
    others: float
    averages: tuple[float, float]

    @classmethod
    def since(cls, before: Times) -> Load:
        """The load since `before`, which are the `times` of then."""
        (began, others_before, average), (ended, others_after, after) = before, times()
        cores = psutil.cpu_count() or 1
        others = (others_after - others_before) / max(ended - began, 1e-3)
        return cls(cores, min(max(others, 0.0), float(cores)), (average, after))

    @property
    def busy(self) -> bool:
        """True if timings have probably suffered."""
        return self.others >= 0.25


def times() -> Times:
    """The clock, seconds that other processes kept cores busy, and the load average."""
    own = psutil.Process().cpu_times()
    busy = sum(seconds for kind, seconds in psutil.cpu_times()._asdict().items() if kind not in _NOT_BUSY)
    return monotonic(), busy - own.user - own.system, psutil.getloadavg()[0]
