"""The C++ compiler, and the CPU that it compiles for."""

from __future__ import annotations

import ctypes
import os
import platform
import shlex
import shutil
from functools import cache
from pathlib import Path

_ARCH_PRCTL, _REQUEST_STATE, _TILE_DATA = 158, 0x1023, 18  # x86-64's system call; ARCH_REQ_XCOMP_PERM; XTILEDATA


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
    """What machine code depends on: machines that share a home directory may have different instructions.

    AMX is left out where the system does not let this process use it.
    """
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:  # no Linux
        return platform.processor(), platform.machine()
    flags = next((line for line in lines if line.startswith(("flags", "Features"))), "")
    if "amx_tile" in flags and not _may_use_tiles():
        flags = " ".join(flag for flag in flags.split() if not flag.startswith("amx"))
    return flags, platform.machine()


def _may_use_tiles() -> bool:
    """Ask Linux for the registers of AMX, which a process gets on request only; all its threads may use them then."""
    return bool(ctypes.CDLL(None).syscall(_ARCH_PRCTL, _REQUEST_STATE, _TILE_DATA) == 0)


def first_line(error: BaseException) -> str:
    """The first line of an error's message, which may be a compiler's whole output."""
    return f"{type(error).__name__}: {str(error).strip()}".splitlines()[0][:200]
