"""`specextend doctor`: what this machine has, what is missing, and the one command that mends the worst of it."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from specextend_cli.cli import options
from specextend_cli.errors import SpecextendError

if TYPE_CHECKING:
    from specextend_cli.ui.streams import Output
    from specextend_cli.ui.tables import Check

NEED_DISK = 1 << 30
NEED_MEMORY = 2 << 30


def doctor(json: options.Json = False, debug: options.Debug = False) -> None:
    """Check this machine; ends with a block to paste into a report."""
    from dataclasses import asdict

    from rich.text import Text

    from specextend_cli.ui.colours import GOOD, QUIET
    from specextend_cli.ui.jsonl import format_json
    from specextend_cli.ui.streams import Output
    from specextend_cli.ui.tables import format_checks, worst

    output = Output()
    checks = list(examine(output))
    if json:
        output.write(format_json([asdict(check) for check in checks]) + "\n")
        return
    output.show(format_checks(checks))
    mend = worst(checks)
    output.show("")
    output.show(Text.assemble(("try:   ", "bold"), mend.fix) if mend else Text("nothing is missing", style=GOOD))
    output.show(Text("\nto paste into a report:\n", style=QUIET))
    output.write(format_report(checks) + "\n")


def format_report(checks: list[Check]) -> str:
    """The findings as a fenced block without colours, for an issue."""
    return "\n".join(("```", *(f"{check.name}: {check.value}" for check in checks), "```"))


def examine(output: Output) -> Iterator[Check]:
    """Look at everything, cheaply: no model is loaded and torch is not imported."""
    yield from _software()
    yield from _hardware()
    yield from _models()
    yield _terminal(output)


def _software() -> Iterator[Check]:
    from specextend_cli import __version__
    from specextend_cli.ui.tables import Check

    yield Check("specextend", __version__)
    yield Check("python", f"{platform.python_version()} on {platform.system()} {platform.machine()}")
    for package in ("torch", "transformers"):
        version = _version(package)
        yield Check(package, version) if version else Check(package, "not installed", "bad", f"pip install {package}")
    flash = _version("flash-attn")
    gpu = _gpu()
    if flash:
        yield Check("flash-attn", flash)
    else:
        fix = "pip install 'specextend-cli[flash]' --no-build-isolation" if gpu else ""
        yield Check("flash-attn", "not installed; PyTorch's own kernels are used", "poor" if gpu else "ok", fix)
    if not gpu:
        yield _compiler()
    cpu_only = "+cpu" in (_version("torch") or "")
    if gpu and cpu_only:
        yield Check("gpu", f"{gpu}, but torch is built without CUDA", "bad", "pip install --force-reinstall torch")
    else:
        yield Check("gpu", gpu or "none found")


def _compiler() -> Check:
    from specextend_cli.ui.tables import Check

    for name in (os.environ.get("CXX"), "g++", "clang++"):
        if name and shutil.which(name):
            return Check("compiler", name)
    fix = "sudo apt install g++ (macOS: xcode-select --install)"
    return Check("compiler", "no C++; decoding takes more than twice as long", "poor", fix)


def _hardware() -> Iterator[Check]:
    import psutil

    from specextend_cli.figures import format_bytes
    from specextend_cli.models.store import cache_root
    from specextend_cli.ui.tables import Check

    physical = psutil.cpu_count(logical=False)
    yield Check("cores", f"{os.cpu_count()}" + (f" ({physical} physical)" if physical else ""))
    memory = psutil.virtual_memory()
    enough = memory.available >= NEED_MEMORY
    yield Check(
        "memory",
        f"{format_bytes(memory.available)} free of {format_bytes(memory.total)}",
        "ok" if enough else "poor",
        "" if enough else "close other programs",
    )
    cache = cache_root()
    free = shutil.disk_usage(_existing(cache)).free
    yield Check(
        "cache",
        f"{cache} ({format_bytes(free)} free)",
        "ok" if free >= NEED_DISK else "poor",
        "" if free >= NEED_DISK else "export XDG_CACHE_HOME=/a/disk/with/space",
    )


def _models() -> Iterator[Check]:
    from specextend_cli.models.preset import DEFAULT
    from specextend_cli.models.presets import load_preset
    from specextend_cli.models.sources import is_present
    from specextend_cli.ui.tables import Check

    try:
        preset = load_preset(DEFAULT)
    except SpecextendError as error:
        yield Check("model", error.what, "bad", error.fix)
        return
    if is_present(preset):
        yield Check("model", f"{DEFAULT} is on disk")
    else:
        yield Check("model", f"{DEFAULT} is not here", "poor", f"specextend models pull {DEFAULT}")
    yield _presets()


def _presets() -> Check:
    """Whether all presets can be read, and which of them this machine has room for."""
    from specextend_cli.figures import format_bytes
    from specextend_cli.models.memory import device_memory, fits
    from specextend_cli.models.presets import list_presets
    from specextend_cli.ui.tables import Check

    try:
        presets = list_presets()
    except SpecextendError as error:
        return Check("presets", error.what, "poor", error.fix)
    memory = device_memory()
    fitting = sum(fits(preset, memory) is not False for preset in presets)
    return Check("presets", f"{fitting} of {len(presets)} fit into {format_bytes(memory)}: specextend presets list")


def _terminal(output: Output) -> Check:
    from specextend_cli.ui.tables import Check

    console = output.console
    kind = f"{console.width} columns, {console.color_system or 'no'} colours" if output.stderr.isatty() else "none"
    return Check("terminal", f"{kind}, TERM={os.environ.get('TERM', '')}, encoding {output.stderr.encoding}")


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _gpu() -> str | None:
    """The GPUs' names by their driver's own tool; None where there is neither."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return "Apple GPU" if (platform.system(), platform.machine()) == ("Darwin", "arm64") else None
    query = [tool, "--query-gpu=name,memory.total", "--format=csv,noheader"]
    try:
        answer = subprocess.run(query, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return "; ".join(answer.stdout.strip().splitlines()) or None


def _existing(path: Path) -> Path:
    """`path`, or the nearest directory above it that exists."""
    return next(folder for folder in (path, *path.parents) if folder.exists())
