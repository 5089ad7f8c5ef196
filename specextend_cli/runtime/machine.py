"""The machine as `models/choice.py` sees it: device, free memory, and how fast a processor is, measured once."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Callable, Generator
from contextlib import suppress
from dataclasses import asdict
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, distribution
from math import inf
from pathlib import Path
from re import MULTILINE, fullmatch, search
from time import perf_counter
from typing import Any

import psutil

from specextend_cli.models.choice import Machine, Speed
from specextend_cli.models.store import cache_root, write_whole
from specextend_cli.runtime.devices import multiplies_bfloat16
from specextend_cli.runtime.loading_thread import Stage

_FILE = "speed.json"
_NVIDIA, _GROUPS = Path("/dev/nvidiactl"), Path("/sys/fs/cgroup")
_ROUNDS = 7
_WEIGHTS = (32_768, 4_096)
"""Rows and columns of a matrix of four bits that no processor's cache holds: 64 MB."""
_PROMPT = (256, 2_048, 6_144)
"""Rows of a piece of a prompt, and the matrix that it meets."""


def this_machine(device: str = "auto") -> Machine:
    """The device that `device` means, without importing torch; its speed where it was measured before."""
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
    return Machine("cpu", free, multiplies_bfloat16(), _stored())


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
    for limit, used in (
        ("memory.max", "memory.current"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
    ):
        with suppress(OSError, ValueError):
            return max(int((groups / limit).read_text()) - int((groups / used).read_text()), 0)
    return inf


def built_for_cuda() -> str | None:
    """The CUDA version that the installed torch was built for, read from its version file without importing it."""
    try:
        path = Path(str(distribution("torch").locate_file("torch/version.py")))
        found = search(r"^cuda\b[^=\n]*=\s*['\"]([\d.]+)['\"]", path.read_text(encoding="utf-8"), MULTILINE)
    except (PackageNotFoundError, OSError, UnicodeDecodeError):
        return None
    return found[1] if found else None


def measured_speed() -> Generator[Stage, None, Speed]:
    """The processor's speed: stored, or measured now, which takes a second or two, and stored."""
    if (known := _stored(final=psutil.getloadavg()[0] < (os.cpu_count() or 1))) is not None:
        return known
    from specextend_cli.runtime.native import make_library

    yield from make_library()
    yield Stage("measuring this processor, once")
    speed = _measure()
    # That of a machine with other work to do counts until it has less.
    _store(speed, is_busy=psutil.getloadavg()[0] >= 1.5 * (os.cpu_count() or 1))
    return speed


def _measure() -> Speed:
    import torch

    from specextend_cli.engine.native import is_loaded
    from specextend_cli.engine.native.kernels import int4_matmul
    from specextend_cli.runtime.devices import dtype_of
    from specextend_cli.runtime.threads import fit_threads

    fit_threads()
    dtype = dtype_of("auto", torch.device("cpu"))
    rows, columns = _WEIGHTS
    x = torch.full((1, columns), 0.5, dtype=dtype)
    if is_loaded():
        codes = torch.full((rows // 16, columns // 8, 64), 0x5A, dtype=torch.uint8)
        scales = torch.full((rows // 16, columns // 32, 2, 16), 0.01, dtype=torch.bfloat16)
        decoding = codes.nbytes + scales.nbytes, _seconds(lambda: int4_matmul(x, codes, scales))
    else:
        weight = torch.full((rows // 4, columns), 0.01, dtype=dtype)
        decoding = weight.nbytes, _seconds(lambda: torch.nn.functional.linear(x, weight))
    n, columns, rows = _PROMPT
    read, matrix = torch.full((n, columns), 0.5, dtype=dtype), torch.full((rows, columns), 0.01, dtype=dtype)
    reading = _seconds(lambda: torch.nn.functional.linear(read, matrix))
    return Speed(decoding[0] / decoding[1], n * columns * rows / reading)


def _seconds(call: Callable[[], object]) -> float:
    call()
    times = []
    for _ in range(_ROUNDS):
        began = perf_counter()
        call()
        times.append(perf_counter() - began)
    return min(times)


def _key() -> str:
    """What the speed depends on: a home directory may be shared by several machines."""
    from specextend_cli.engine.native import version
    from specextend_cli.engine.native.compiler import processor

    digest = sha256("\n".join(processor()).encode()).hexdigest()[:12]
    return json.dumps((processor_name(), os.cpu_count(), digest, version()[:12]))


def processor_name() -> str:
    """The processor's model, or what the system calls it; "" if that is not known."""
    try:
        model = search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), MULTILINE)
    except OSError:  # no Linux
        model = None
    return model[1] if model else platform.processor()


def _stored(*, final: bool = False) -> Speed | None:
    """What was kept; only if it is `final`, where the machine had no other work."""
    found: Any = _file().get(_key())
    try:
        speed = Speed(float(found["weight_bytes"]), float(found["multiply_adds"]))
        is_usable = not (final and found.get("is_busy"))
    except (LookupError, TypeError, ValueError, AttributeError):
        return None
    return speed if is_usable and all(0 < one < inf for one in (speed.weight_bytes, speed.multiply_adds)) else None


def _store(speed: Speed, *, is_busy: bool = False) -> None:
    """Keep it beside other machines'; a cache that cannot be written keeps nothing."""
    with suppress(OSError):
        write_whole(cache_root() / _FILE, json.dumps({**_file(), _key(): {**asdict(speed), "is_busy": is_busy}}))


def _file() -> dict[str, Any]:
    try:
        found = json.loads((cache_root() / _FILE).read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
