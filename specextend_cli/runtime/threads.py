"""How many threads compute on a processor: torch's own choice, but never more than this process may use.

torch takes a thread a physical core: two threads of one core share the units that multiply, and memory is busy before
all cores are. Two things it does not see: a container's share of the processors, whose threads are stopped when they
have used it up, and, in builds without MKL, which processors are halves of one core. `OMP_NUM_THREADS` overrules all.
"""

from __future__ import annotations

import os
from functools import cache
from math import ceil
from pathlib import Path

import psutil

_OVERRULED = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")
_GROUPS = Path("/sys/fs/cgroup")


@cache
def _threads() -> int:
    """What torch took in the beginning."""
    import torch

    return torch.get_num_threads()


def fit_threads() -> int:
    """Give torch as many threads as it took in the beginning, or fewer where that is too many; returns the number."""
    import torch

    if are_chosen():
        return torch.get_num_threads()
    able = (_threads(), psutil.cpu_count(logical=False), share(_GROUPS))
    fitting = min(count for count in able if count)
    if fitting != torch.get_num_threads():
        torch.set_num_threads(fitting)
    return fitting


def are_chosen() -> bool:
    """Whether the user says how many."""
    return any(os.environ.get(name) for name in _OVERRULED)


def share(groups: Path) -> int | None:
    """Processors that a container may use, rounded up, by Linux' control groups; None where nothing says so."""
    try:
        if (groups / "cpu.max").exists():  # version 2: microseconds of processor time, and in how many
            quota, period = (groups / "cpu.max").read_text().split()
        else:
            quota, period = ((groups / "cpu" / f"cpu.cfs_{name}_us").read_text() for name in ("quota", "period"))
        return max(ceil(int(quota) / int(period)), 1) if int(quota) > 0 else None
    except (OSError, ValueError, ZeroDivisionError):
        return None
