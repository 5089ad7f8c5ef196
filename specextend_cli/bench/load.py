"""How busy the machine was beside this process: timings mean little without it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from time import monotonic

import psutil

_IDLE = ("idle", "iowait", "guest", "guest_nice")  # guests count as user time already


@dataclass(frozen=True, slots=True)
class Load:
    """`others` is how many of the `cores` other processes kept busy, in the mean; `averages` are the load averages over
    one minute before and after, this process included, where the system has them.
    """

    cores: int
    others: float
    averages: tuple[float, float] | None

    @property
    def busy(self) -> bool:
        """Whether timings have suffered, probably."""
        return self.others >= 0.25


class LoadMeter:
    """Measures from its making on."""

    def __init__(self) -> None:
        self._average = _average()
        self._at, self._busy, self._own = monotonic(), _busy_seconds(), _own_seconds()

    def load(self) -> Load:
        """Since the meter was made."""
        wall = max(monotonic() - self._at, 1e-3)
        others = (_busy_seconds() - self._busy - (_own_seconds() - self._own)) / wall
        cores, after = psutil.cpu_count() or 1, _average()
        averages = None if self._average is None or after is None else (self._average, after)
        return Load(cores, min(max(others, 0.0), float(cores)), averages)


def _average() -> float | None:
    try:
        return os.getloadavg()[0]
    except (AttributeError, OSError):
        return None


def _busy_seconds() -> float:
    """Of all cores, since the system was started; a hypervisor's other guests count."""
    times = psutil.cpu_times()._asdict()
    return float(
        sum(seconds for kind, seconds in times.items() if kind not in ("idle", "iowait", "guest", "guest_nice"))
    )


def _own_seconds() -> float:
    times = psutil.Process().cpu_times()
    return float(times.user + times.system)
