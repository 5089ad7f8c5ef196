"""`specextend doctor`: what this machine has and lacks, in ten lines. No model is loaded, and torch is not imported."""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib import metadata
from typing import TYPE_CHECKING, Literal

from specextend_cli.cli import options
from specextend_cli.errors import Exit, SpecextendError
from specextend_cli.humanize import format_bytes

if TYPE_CHECKING:
    from specextend_cli.ui.output import Output

NEED_DISK = 1 << 30
_WHEELS = "https://download.pytorch.org/whl/cpu"
"""PyTorch's CPU build, a tenth of the size of the CUDA build on PyPI."""


@dataclass(frozen=True)
class Check:
    """One finding of the command.

    "bad": a required part is missing; "poor": without it things are slower or impossible, as `found` says. `fix` is the
    command that mends it.
    """

    name: str
    found: str
    state: Literal["ok", "poor", "bad"] = "ok"
    fix: str = ""


def doctor(json: options.Json = False) -> None:
    """Check this machine.

    Each line says what is there, or what is missing and what that costs; the last line is the first command to run.
    Exit code 4 means that something required is missing.
    """
    from rich.text import Text

    from specextend_cli.ui.output import GOOD, Output
    from specextend_cli.ui.tables import format_checks

    output = Output()
    checks = list(examine(output))
    if json:
        output.write_json([asdict(check) for check in checks])
    else:
        output.show(format_checks([(one.state, one.name, one.found) for one in checks]))
        fixes = [one.fix for state in ("bad", "poor") for one in checks if one.state == state and one.fix]
        output.show(Text.assemble("\n", ("try:   ", "bold"), fixes[0]) if fixes else Text("\nall is there", style=GOOD))
    if any(check.state == "bad" for check in checks):
        raise SystemExit(int(Exit.MODEL))


def examine(output: Output) -> Iterator[Check]:
    """The ten checks, in display order."""
    import psutil

    from specextend_cli import __version__
    from specextend_cli.documents import ocr

    gpu, memory = _gpu_names(), psutil.virtual_memory()
    yield Check("specextend", f"{__version__}, Python {platform.python_version()}, {platform.platform(terse=True)}")
    yield _required("torch", "pip install torch" if gpu else f"pip install torch --index-url {_WHEELS}")
    yield _required("transformers", "pip install transformers")
    yield _gpu(gpu)
    yield _gpu_kernels() if gpu else _native_code()
    free = f"{format_bytes(memory.available)} free of {format_bytes(memory.total)}"
    yield Check("memory", f"{free}, {os.cpu_count()} cores")
    yield _cache()
    yield _model()
    if ocr.program():
        yield Check("OCR", "--ocr reads scans and images")
    else:
        yield Check("OCR", "ocrmypdf or tesseract is missing: scans and images cannot be read", "poor", ocr.INSTALL)
    console, stderr = output.console, output.stderr
    kind = f"{console.width} columns, {console.color_system or 'no'} colours" if stderr.isatty() else "none"
    yield Check("terminal", f"{kind}, TERM={os.environ.get('TERM', '')}, encoding {stderr.encoding}")


def _required(package: str, fix: str) -> Check:
    version = _version(package)
    return Check(package, version) if version else Check(package, "not installed: no model can be run", "bad", fix)


def _gpu(gpu: str | None) -> Check:
    """The GPU, and whether torch was built for what is there."""
    from specextend_cli.runtime.devices import built_for_cuda

    cuda, again = built_for_cuda(), "pip install --force-reinstall torch --index-url"
    if not gpu and cuda:
        return Check("gpu", f"none: torch for CUDA {cuda} takes gigabytes for nothing", "poor", f"{again} {_WHEELS}")
    if not gpu:
        return Check("gpu", "none: models run on the processor, where only the smallest presets are fast")
    if not cuda and _version("torch"):
        found = f"{gpu}, which torch cannot use: it is built without CUDA"
        return Check("gpu", found, "poor", f"{again} https://pypi.org/simple")
    return Check("gpu", gpu)


def _gpu_kernels() -> Check:
    """Draft trees on NVIDIA's GPUs are verified by Triton's kernels, which need a C compiler."""
    if _version("triton") and (os.environ.get("CC") or shutil.which("gcc") or shutil.which("clang")):
        return Check("kernels", "Triton's, in CUDA graphs")
    fix = "sudo apt install gcc" if _version("triton") else "pip install triton"
    return Check("kernels", "torch's: slower over long texts, and no CUDA graphs", "poor", fix)


def _native_code() -> Check:
    """What makes decoding fast on a processor: its instructions, and a C++ compiler where no wheel brought the code."""
    from specextend_cli.engine.native import CannotCompileError, Library
    from specextend_cli.engine.native.shared_library import compiler, instructions
    from specextend_cli.models.store import cache_root

    try:
        is_shipped = Library.within(cache_root() / "programs").is_shipped
        came = "came with the package" if is_shipped else f"compiled by {' '.join(compiler())}"
        return Check("native code", f"{instructions()}, {came}")
    except CannotCompileError as error:
        fix = "xcode-select --install" if platform.system() == "Darwin" else "sudo apt install g++"
        return Check("native code", f"none, as {error}: decoding takes several times as long", "poor", fix)


def _cache() -> Check:
    """The directory of models and results must be writable and have room."""
    from specextend_cli.models.store import cache_root

    cache = cache_root()
    existing = next(folder for folder in (cache, *cache.parents) if folder.exists())
    free = shutil.disk_usage(existing).free
    found = f"{cache} ({format_bytes(free)} free)"
    if os.access(existing, os.W_OK | os.X_OK) and free >= NEED_DISK:
        return Check("cache", found)
    fix = "export XDG_CACHE_HOME=/a/disk/with/space"
    return Check("cache", f"{found}: models and results cannot be stored there", "poor", fix)


def _model() -> Check:
    """The model that runs where none is named, and whether it is on disk."""
    from specextend_cli.cli.choice import chosen_model
    from specextend_cli.models.presets import load_preset
    from specextend_cli.models.sources import is_present, offline_by_environment

    try:
        name = chosen_model(None).preset
        if name is None:
            return Check("model", "none that writes is on disk and fits: documents are quoted (specextend models list)")
        if is_present(load_preset(name)):
            return Check("model", f"{name} is on disk")
    except SpecextendError as error:
        return Check("model", f"{error.what}: only --mode extractive works", "bad", error.fix)
    fix = f"specextend models pull {name}"
    if offline_by_environment():
        fix = f"env -u SPECEXTEND_OFFLINE -u HF_HUB_OFFLINE {fix}"
        return Check("model", f"{name} is not on disk, and the environment forbids downloading it", "bad", fix)
    return Check("model", f"{name} is not on disk, and is downloaded at its first use", "poor", fix)


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _gpu_names() -> str | None:
    """The names of the GPUs by nvidia-smi; None without a GPU or driver."""
    from specextend_cli.runtime.devices import nvidia_smi

    return "; ".join(nvidia_smi("name,memory.total")) or None
