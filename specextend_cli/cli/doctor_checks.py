"""The checks of `doctor`. They are cheap: no model is loaded and torch is not imported."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from importlib import metadata
from pathlib import Path
from typing import Literal

from specextend_cli.cli.model_choice import announcement, chosen_model
from specextend_cli.errors import SpecextendError
from specextend_cli.humanize import format_bytes
from specextend_cli.runtime.machine import built_for_cuda, nvidia_smi
from specextend_cli.ui.output import Output
from specextend_cli.ui.tables import Check

NEED_DISK = 1 << 30
NEED_MEMORY = 2 << 30
FOR_PROCESSORS = "pip install torch --index-url https://download.pytorch.org/whl/cpu"
"""PyTorch's CPU build, a tenth of the size of the CUDA build on PyPI."""
_SLOW = "decoding takes several times as long"
_COSTS = dict.fromkeys(
    ("avx512-vnni", "avx512", "avx2-vnni", "avx2"), "without bfloat16 products, reading takes about twice as long"
)
_OFFLINE, _NO = ("SPECEXTEND_OFFLINE", "HF_HUB_OFFLINE"), ("", "0", "false", "no", "off")
_NVIDIA, _DISPLAY = "0x10de", "0x03"


def examine(output: Output) -> Iterator[Check]:
    """Every finding, in display order."""
    from specextend_cli import __version__
    from specextend_cli.documents.ocr_engine import INSTALL, has_engine

    gpu = _gpu()
    yield Check("specextend", __version__)
    yield Check("python", f"{platform.python_version()} on {platform.system()} {platform.machine()}")
    yield _torch(gpu)
    yield _required("transformers", "pip install transformers")
    pip, lost = _version("pip"), "models are fetched without pip's mirrors and proxies"
    yield Check("pip", pip) if pip else Check("pip", "not installed", cost=lost)
    yield _gpu_check(gpu)
    if gpu:
        yield from _attention(gpu)
    else:
        yield from _processor()
    yield from _hardware()
    yield from _models()
    if has_engine():
        yield Check("OCR", "--ocr reads scans and images")
    else:
        fix = _for_this_system(INSTALL)
        yield Check("OCR", "neither tesseract nor ocrmypdf", "poor", fix, "scans and images cannot be read")
    console, stderr = output.console, output.stderr
    kind = f"{console.width} columns, {console.color_system or 'no'} colours" if stderr.isatty() else "none"
    yield Check("terminal", f"{kind}, TERM={os.environ.get('TERM', '')}, encoding {stderr.encoding}")


def _for_this_system(commands: str) -> str:
    """The one of "apt install x (Debian), dnf install x (Fedora) or …" whose program is here; all where none is."""
    for command in re.split(r", (?=\w+ install)| or ", commands):
        program = command.split()[0]
        if shutil.which(program):
            return "sudo " * (program != "brew") + command.partition(" (")[0]
    return commands


def _attention(gpu: str) -> Iterator[Check]:
    """What attends on a GPU, to prompts and to draft trees, and whether forwards are replayed as CUDA graphs."""
    from specextend_cli.runtime.graphs import VARIABLE, are_wanted

    if gpu.startswith("Apple"):
        yield Check("attention", "torch reads prompts and verifies trees")
        return
    reading, launches = _prompt_kernel(_capability()), "every forward launches its kernels one by one"
    compiler = os.environ.get("CC") or shutil.which("gcc") or shutil.which("clang")
    has_triton = _version("triton") is not None
    if has_triton and compiler:
        yield Check("attention", f"{reading} reads prompts, Triton verifies trees")
        yield Check("CUDA graphs", "on") if are_wanted() else Check("CUDA graphs", f"off by {VARIABLE}", cost=launches)
        return
    what, fix = ("a C compiler", "sudo apt install gcc") if has_triton else ("Triton", "pip install triton")
    value = f"{reading} reads prompts; torch verifies trees, for want of {what}"
    yield Check("attention", value, "poor", fix, "slower over long texts, and no graphs")
    yield Check("CUDA graphs", "off: they need Triton", cost=launches)


def _prompt_kernel(capability: tuple[int, int] | None) -> str:
    """Whose kernel reads prompts on GPUs of that compute capability, where it passes the check at load."""
    if capability is not None and capability < (8, 0):
        return "torch's memory-efficient kernel"
    if capability is not None and capability >= (9, 0):
        return "cuDNN"
    flash = _version("flash-attn")
    return f"flash-attn {flash}" if flash else "torch's FlashAttention-2"


def _required(package: str, fix: str) -> Check:
    version = _version(package)
    return Check(package, version) if version else Check(package, "not installed", "bad", fix, "no model can be run")


def _torch(gpu: str | None) -> Check:
    found, cuda = _required("torch", "pip install torch" if gpu else FOR_PROCESSORS), built_for_cuda()
    if found.state == "bad" or cuda is None or gpu is not None:
        return found
    fix, cost = f"{FOR_PROCESSORS} --force-reinstall", "it takes gigabytes that are useless without a GPU"
    return Check("torch", f"{found.value}, for CUDA {cuda}", "poor", fix, cost)


def _gpu_check(gpu: str | None) -> Check:
    slow = "models run on the CPU, where only the smallest presets are fast"
    if gpu and not gpu.startswith("Apple") and _version("torch") and built_for_cuda() is None:
        fix = "pip install --force-reinstall torch --index-url https://pypi.org/simple"
        return Check("gpu", gpu, "poor", fix, "torch is built without CUDA, and cannot use it")
    if gpu:
        return Check("gpu", gpu)
    if _has_nvidia():
        fix = "install NVIDIA's driver: nvidia-smi must list the GPU"
        return Check("gpu", "an NVIDIA GPU whose driver does not answer", "poor", fix, slow)
    return Check("gpu", "none found", cost=slow)


def _processor() -> Iterator[Check]:
    """What makes decoding fast without a GPU: instructions, a C++ compiler, and compiled code that may be loaded."""
    from specextend_cli.engine.native import CannotCompileError, Library
    from specextend_cli.engine.native.compiler import compiler
    from specextend_cli.engine.native.shared_library import VARIABLE, instructions
    from specextend_cli.engine.private_files import UntrustedError, make_private
    from specextend_cli.models.store import cache_root

    programs, is_shipped = cache_root() / "programs", False
    try:
        name = instructions()
        is_shipped = Library.within(programs).is_shipped
    except CannotCompileError as error:
        yield Check("instructions", str(error), "poor", f"unset {VARIABLE}", f"no native code runs; {_SLOW}")
    else:
        if name == "portable":
            yield Check("instructions", "no AVX2, no NEON with dot products", "poor", "", _SLOW)
        else:
            yield Check("instructions", name, cost=_COSTS.get(name, ""))
    cost = f"native code is not compiled for this machine; {_SLOW}"
    try:
        command = compiler()
    except CannotCompileError as error:
        if is_shipped:
            yield Check("compiler", f"{error}; none is needed, as native code came with the package")
        else:
            yield Check("compiler", str(error), "poor", "sudo apt install g++ (macOS: xcode-select --install)", cost)
    else:
        name = " ".join(command)
        if (why := _why_not(command)) is not None:
            yield Check("compiler", f"{name} fails ({why})", "poor", "sudo apt install g++", cost)
        else:
            yield Check("compiler", name)
    try:
        if programs.exists():
            make_private(programs)
    except UntrustedError as error:
        why, _, fix = str(error).rpartition("; ")
        yield Check("compiled code", why, "poor", fix, _SLOW)
    except OSError:  # the check of the cache reports it
        pass


def _why_not(compiler: Sequence[str]) -> str | None:
    """The first line of the compiler's error; None if the program compiles."""
    try:
        done = subprocess.run(
            [*compiler, "-std=c++20", "-fsyntax-only", "-x", "c++", "-"],
            input="#include <atomic>\nint main() { return 0; }\n",
            capture_output=True,
            text=True,
            errors="replace",
            timeout=30,
        )
    except (OSError, subprocess.SubprocessError) as error:
        return str(error).splitlines()[0][:80]
    lines = done.stderr.strip().splitlines()
    return None if done.returncode == 0 else (lines[0] if lines else f"exit code {done.returncode}")[:80]


def _hardware() -> Iterator[Check]:
    import psutil

    physical = psutil.cpu_count(logical=False)
    yield Check("cores", f"{os.cpu_count()}" + (f" ({physical} physical)" if physical else ""))
    memory = psutil.virtual_memory()
    value = f"{format_bytes(memory.available)} free of {format_bytes(memory.total)}"
    cost = f"the default model wants {format_bytes(NEED_MEMORY)} and may not fit"
    enough = memory.available >= NEED_MEMORY
    yield Check("memory", value) if enough else Check("memory", value, "poor", "close other programs", cost)


def _models() -> Iterator[Check]:
    from specextend_cli.models.preset import DEFAULT
    from specextend_cli.models.presets import load_preset
    from specextend_cli.models.sources import is_present

    try:
        present = is_present(load_preset(DEFAULT))
    except SpecextendError as error:
        yield Check("model", error.what, "bad", error.fix, "without --model only --mode extractive works")
        return
    yield _cache(present)
    fetch = f"specextend models pull {DEFAULT}"
    if present:
        yield Check("model", f"{DEFAULT} is on disk")
    elif said := [name for name in _OFFLINE if os.environ.get(name, "").lower() not in _NO]:
        fix = f"env {' '.join(f'-u {name}' for name in said)} {fetch}"
        yield Check("model", f"{DEFAULT} is not here", "bad", fix, f"{' and '.join(said)} forbids downloading it")
    else:
        yield Check("model", f"{DEFAULT} is not here", "poor", fetch, "the first summary downloads 93 MB")
    yield _choice()
    yield _presets()


def _choice() -> Check:
    """The model that runs where none is named."""
    from specextend_cli.models.presets import load_preset
    from specextend_cli.models.sources import is_present

    try:
        choice = chosen_model(None)
        line = announcement(choice).removeprefix("model: ")
        if choice.reason == "configured" and not is_present(load_preset(choice.preset)):
            return Check("choice", line, "poor", f"specextend models pull {choice.preset}", "it is not on disk yet")
    except SpecextendError as error:
        return Check("choice", error.what, "poor", error.fix, error.why)
    return Check("choice", line)


def _cache(present: bool) -> Check:
    """The cache directory. If the default model is not `present`, there must be room for it."""
    from specextend_cli.models.store import cache_root

    cache = cache_root()
    existing = next(folder for folder in (cache, *cache.parents) if folder.exists())
    free = shutil.disk_usage(existing).free
    value, fix = f"{cache} ({format_bytes(free)} free)", "export XDG_CACHE_HOME=/a/disk/with/space"
    state: Literal["poor", "bad"] = "poor" if present else "bad"
    if not os.access(existing, os.W_OK | os.X_OK):
        lost = "chunk summaries, runs and compiled code are not kept" if present else "no model can be stored"
        return Check("cache", f"{value}, which cannot be written to", state, fix, lost)
    if free < NEED_DISK:
        lost = "chunk summaries, runs and compiled code may not be kept" if present else "the model does not fit"
        return Check("cache", value, state, fix, lost)
    return Check("cache", value)


def _presets() -> Check:
    """Whether all presets can be read, and how many fit into memory."""
    from specextend_cli.models.memory import fits
    from specextend_cli.models.presets import list_presets
    from specextend_cli.runtime.machine import this_machine

    try:
        presets = list_presets()
    except SpecextendError as error:
        return Check("presets", error.what, "poor", error.fix, "presets cannot be listed")
    machine = this_machine()
    fitting = sum(fits(preset, machine.free, on_cpu=machine.device == "cpu") is not False for preset in presets)
    free = format_bytes(machine.free)
    return Check("presets", f"{fitting} of {len(presets)} fit into {free} free: specextend presets list")


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _gpu() -> str | None:
    """The names of the GPUs by nvidia-smi; None without a GPU or driver."""
    if shutil.which("nvidia-smi") is None:
        return "Apple GPU" if (platform.system(), platform.machine()) == ("Darwin", "arm64") else None
    return "; ".join(nvidia_smi("name,memory.total")) or None


def _capability() -> tuple[int, int] | None:
    """The lowest compute capability of the GPUs by nvidia-smi; None where it does not say."""
    found = re.findall(r"(\d+)\.(\d+)", " ".join(nvidia_smi("compute_cap")))
    return min(((int(major), int(minor)) for major, minor in found), default=None)


def _has_nvidia() -> bool:
    """Whether an NVIDIA display adapter is on the PCI bus, with or without a driver."""
    for device in Path("/sys/bus/pci/devices").glob("*"):
        try:
            vendor, kind = ((device / name).read_text().strip() for name in ("vendor", "class"))
        except OSError:
            continue
        if vendor == _NVIDIA and kind.startswith(_DISPLAY):
            return True
    return False
