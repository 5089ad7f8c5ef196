"""The machine as `models/choice.py` sees it: its device, and the memory that is free."""

from __future__ import annotations

import os
import platform
import subprocess
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, distribution
from math import inf
from pathlib import Path
from re import MULTILINE, fullmatch, search

import psutil

from specextend_cli.models.choice import Machine
from specextend_cli.runtime.devices import multiplies_bfloat16

_NVIDIA, _GROUPS = Path("/dev/nvidiactl"), Path("/sys/fs/cgroup")


def this_machine(device: str = "auto") -> Machine:
    """The device that `device` means, without importing torch."""
    number = int(device.partition(":")[2] or 0)
    if device == "auto" or device.startswith("cuda"):
        found = _gpu_memory(number) if built_for_cuda() else None
        if found is not None:
            return Machine("cuda", found)
        if built_for_cuda() and _NVIDIA.exists() and (unlisted := _free_by_torch(number)) is not None:
            return Machine("cuda", unlisted)
    free = int(min(psutil.virtual_memory().available, _group_memory(_GROUPS)))
    if device == "mps":
        return Machine("mps", free)
    return Machine("cpu", free, multiplies_bfloat16())


def may_be_cuda(device: str) -> bool:
    """Whether `device` may mean a GPU by CUDA, at a glance: only torch knows."""
    return device.startswith("cuda") or (device == "auto" and _NVIDIA.exists())


def device_kind(device: str = "auto") -> str:
    """What `device` means without its number, without importing torch: cpu, cuda or mps."""
    return this_machine().device if device == "auto" else device.partition(":")[0]


def nvidia_smi(query: str, *options: str) -> list[str]:
    """A line of nvidia-smi for each GPU; none where it does not answer."""
    command = ["nvidia-smi", *options, f"--query-gpu={query}", "--format=csv,noheader"]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout.splitlines()
    except (OSError, subprocess.SubprocessError):
        return []


def _gpu_memory(number: int) -> int | None:
    """Bytes that are free on a GPU that this process may use, by nvidia-smi; None where it does not say."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    ids = [str(number)] if visible is None else visible.split(",")[number : number + 1]
    if not ids or not fullmatch(r"\s*(\d+|GPU-[0-9a-f-]+)\s*", ids[0]):
        return None  # "" and "-1" hide all of them; parts of a GPU (MIG) are not listed so
    with suppress(ValueError, IndexError):
        return int(nvidia_smi("memory.free", f"--id={ids[0].strip()}")[0].split()[0]) << 20  # "81000 MiB"
    return None


def _free_by_torch(number: int) -> int | None:
    """Bytes that are free on a GPU which nvidia-smi does not tell of: a part of one (MIG), or without that program."""
    import torch

    return int(torch.cuda.mem_get_info(number)[0]) if number < torch.cuda.device_count() else None


def _group_memory(groups: Path) -> float:
    """Bytes that a container may still take, by Linux' control groups; infinite where nothing limits it."""
    with suppress(OSError, ValueError):
        return max(int((groups / "memory.max").read_text()) - int((groups / "memory.current").read_text()), 0)
    return inf


def built_for_cuda() -> str | None:
    """The CUDA version that the installed torch was built for, read from its version file without importing it."""
    try:
        path = Path(str(distribution("torch").locate_file("torch/version.py")))
        found = search(r"^cuda\b[^=\n]*=\s*['\"]([\d.]+)['\"]", path.read_text(encoding="utf-8"), MULTILINE)
    except (PackageNotFoundError, OSError, UnicodeDecodeError):
        return None
    return found[1] if found else None


def processor_name() -> str:
    """The processor's model, or what the system calls it; "" if that is not known."""
    try:
        model = search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), MULTILINE)
    except OSError:  # no Linux
        model = None
    return model[1] if model else platform.processor()
