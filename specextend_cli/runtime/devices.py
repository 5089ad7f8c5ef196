"""Devices, number formats, free memory and threads, by torch."""

from __future__ import annotations

import os
import platform
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from specextend_cli.engine.attention_backends import BACKENDS
from specextend_cli.errors import UsageError

if TYPE_CHECKING:
    import torch


def device_of(name: str) -> torch.device:
    """The device of that name, "auto" the best there is; UsageError where torch does not see it."""
    import torch

    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise UsageError(f"there is no device {name!r}", fix="--device auto, cpu, cuda or cuda:1") from error
    devices = {"cpu": 1, "cuda": torch.cuda.device_count(), "mps": int(torch.backends.mps.is_available())}
    if (device.index or 0) >= devices.get(device.type, 0):
        seen = ", ".join(f"{count} {kind}" for kind, count in devices.items())
        raise UsageError(f"device {name} is not usable here", why=f"torch sees {seen}", fix="specextend doctor")
    return device


def make_current(device: torch.device) -> None:
    """Let this thread's kernels of Triton run on that GPU, if one is named."""
    import torch

    if device.type == "cuda" and device.index is not None:
        torch.cuda.set_device(device)


def dtype_of(name: str, device: torch.device) -> torch.dtype:
    """bfloat16 wherever the machine multiplies it natively, float32 elsewhere."""
    import torch

    if name != "auto":
        dtype: torch.dtype = getattr(torch, name)
        return dtype
    if device.type == "cuda":
        # `is_bf16_supported` asks the current GPU. Older ones say that they have it, and compute it in several steps.
        from specextend_cli.engine.attention.hybrid import capability

        return torch.bfloat16 if capability(device) >= 8 else torch.float16
    able = torch.backends.mkldnn.is_available() and torch.ops.mkldnn._is_mkldnn_bf16_supported()
    return torch.bfloat16 if able and multiplies_bfloat16() else torch.float32


def multiplies_bfloat16() -> bool:
    """Whether the CPU has instructions for it: with AVX-512 alone, oneDNN emulates them at a third of the speed."""
    from specextend_cli.engine.native import CannotCompileError
    from specextend_cli.engine.native.shared_library import INSTRUCTIONS, instructions

    try:
        return platform.machine() not in ("x86_64", "AMD64") or "avx512_bf16" in INSTRUCTIONS[instructions()][0]
    except CannotCompileError:  # no such instructions: the run says so when it loads the library
        return False


def check_attention(name: str, device: torch.device) -> None:
    """UsageError where the attention back end of that name does not run on `device`, or its package is missing."""
    if name == "auto":
        return
    declared = BACKENDS[name]
    if declared.device not in (None, device.type):
        why = f"it runs on {declared.device}, the model on {device.type}"
    elif package := declared.missing():
        why = f"the package {package} is not installed"
    else:
        return
    raise UsageError(f"attention {name} is not usable here", why=why, fix="auto takes the fastest that is")


def free_memory(device: torch.device) -> int:
    """Bytes that are free on `device` now, those among them that torch keeps for its next tensors."""
    import torch

    if device.type == "cuda":
        kept = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return int(torch.cuda.mem_get_info(device)[0]) + kept
    return int(psutil.virtual_memory().available)


_OVERRULED = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")
_GROUPS = Path("/sys/fs/cgroup")


def fit_threads() -> int:
    """Give torch fewer threads where it took too many; returns the number.

    torch takes a thread a physical core. Two things it does not see: a container's share of the processors, whose
    threads are stopped when they have used it up, and, in builds without MKL, which processors are halves of one core.
    """
    import torch

    if any(os.environ.get(name) for name in _OVERRULED):
        return torch.get_num_threads()
    able = (torch.get_num_threads(), psutil.cpu_count(logical=False), share(_GROUPS))
    fitting = min(count for count in able if count)
    if fitting != torch.get_num_threads():
        torch.set_num_threads(fitting)
    return fitting


def share(groups: Path) -> int | None:
    """Processors that a container may use, rounded up, by Linux' control groups; None where nothing says so."""
    try:
        quota, period = (groups / "cpu.max").read_text().split()  # microseconds of processor time, and in how many
        return max(ceil(int(quota) / int(period)), 1)
    except (OSError, ValueError, ZeroDivisionError):
        return None
