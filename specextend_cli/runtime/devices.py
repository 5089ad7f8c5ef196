"""The machine: its devices, by torch and without it, number formats, free memory and threads."""

from __future__ import annotations

import os
import platform
import subprocess
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, distribution
from math import ceil, inf
from pathlib import Path
from re import MULTILINE, fullmatch, search
from typing import TYPE_CHECKING

import psutil

from specextend_cli.engine.attention_backends import BACKENDS
from specextend_cli.errors import UsageError
from specextend_cli.humanize import format_many
from specextend_cli.models.choice import Machine

if TYPE_CHECKING:
    import torch

_NVIDIA, _GROUPS = Path("/dev/nvidiactl"), Path("/sys/fs/cgroup")


def device_of(name: str) -> torch.device:
    """The device of that name, "auto" the best there is; UsageError where torch does not see it."""
    import torch

    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    gpus = torch.cuda.device_count()
    with suppress(RuntimeError):  # torch knows no such name
        device = torch.device(name)
        if (device.index or 0) < {"cpu": 1, "cuda": gpus}.get(device.type, 0):
            return device
    fix = "--device auto, cpu, cuda or cuda:1; specextend doctor looks for GPUs"
    raise UsageError(f"device {name} is not usable here", why=f"torch sees {format_many(gpus, 'GPU')}", fix=fix)


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


def this_machine(device: str = "auto") -> Machine:
    """The device that `device` means, without importing torch."""
    number = int(device.partition(":")[2] or 0)
    if (device == "auto" or device.startswith("cuda")) and built_for_cuda():
        found = _gpu_memory(number)
        if found is not None:
            return Machine("cuda", found)
    free = int(min(psutil.virtual_memory().available, _group_memory(_GROUPS)))
    return Machine("cpu", free, multiplies_bfloat16())


def may_be_cuda(device: str) -> bool:
    """Whether `device` may mean a GPU by CUDA, at a glance: only torch knows."""
    return device.startswith("cuda") or (device == "auto" and _NVIDIA.exists())


def device_kind(device: str = "auto") -> str:
    """What `device` means without its number, without importing torch: cpu or cuda."""
    return this_machine().device if device == "auto" else device.partition(":")[0]


def nvidia_smi(query: str, *options: str) -> list[str]:
    """A line of nvidia-smi for each GPU; none where it does not answer."""
    command = ["nvidia-smi", *options, f"--query-gpu={query}", "--format=csv,noheader"]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout.splitlines()
    except (OSError, subprocess.SubprocessError):
        return []


def _gpu_memory(number: int) -> int | None:
    """Bytes that are free on a GPU that this process may use, or None; by torch where nvidia-smi does not say.

    It does not tell of parts of a GPU (MIG).
    """
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    ids = [str(number)] if visible is None else visible.split(",")[number : number + 1]
    if ids and fullmatch(r"\s*(\d+|GPU-[0-9a-f-]+)\s*", ids[0]):  # "" and "-1" hide all of them
        with suppress(ValueError, IndexError):
            return int(nvidia_smi("memory.free", f"--id={ids[0].strip()}")[0].split()[0]) << 20  # "81000 MiB"
    if not _NVIDIA.exists():
        return None
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
