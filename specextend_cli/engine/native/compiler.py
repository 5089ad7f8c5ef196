"""The C++ compiler, and the CPU that it compiles for."""

from __future__ import annotations

import os
import platform
import shlex
import shutil
from functools import cache
from pathlib import Path


class CannotCompileError(Exception):
    """Something cannot be compiled, or not on this machine."""


def compiler() -> tuple[str, ...]:
    """The command of a C++ compiler: `$CXX`, with its arguments, g++ or clang++. CannotCompileError: there is none."""
    chosen = os.environ.get("CXX")
    for name, *arguments in (shlex.split(chosen),) if chosen else (["g++"], ["clang++"]):
        if found := shutil.which(name):
            return found, *arguments
    raise CannotCompileError(f"there is no C++ compiler ({chosen or 'g++ or clang++'})")


@cache
def processor() -> tuple[str, ...]:
    """What machine code depends on: machines that share a home directory may have different instructions."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next((line for line in lines if line.startswith(("flags", "Features"))), ""), platform.machine()
    except OSError:  # no Linux
        return platform.processor(), platform.machine()


def first_line(error: BaseException) -> str:
    """The first line of an error's message, which may be a compiler's whole output."""
    return f"{type(error).__name__}: {str(error).strip()}".splitlines()[0][:200]
