"""The library of native code: compiled on the user's machine where no wheel brought it, and loaded by ctypes.

Its interface is plain C, so one file serves every version of Python and torch, and compiling it takes some ten seconds.
It is declared in `specextend.h` alone, from which types are read here.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from specextend_cli.engine.private_files import UntrustedError, checked, is_good, make_private, publish

_HERE = Path(__file__).parent
SOURCES = (*sorted(_HERE.glob("*.h")), _HERE / "specextend.cpp")
VARIABLE = "SPECEXTEND_ISA"
"""The environment variable that names an instruction set of `INSTRUCTIONS`."""
_V3 = frozenset({"avx2", "fma", "f16c", "bmi1", "bmi2"})
_V4 = _V3 | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}
INSTRUCTIONS: Mapping[str, tuple[frozenset[str], tuple[str, ...]]] = {
    "avx512-amx": (
        _V4 | {"avx512_vnni", "avx512_bf16", "amx_tile", "amx_bf16", "amx_int8"},
        ("-march=x86-64-v4", "-mavx512vnni", "-mavx512bf16", "-mamx-tile", "-mamx-bf16", "-mamx-int8"),
    ),
    "avx512-bf16": (_V4 | {"avx512_vnni", "avx512_bf16"}, ("-march=x86-64-v4", "-mavx512vnni", "-mavx512bf16")),
    "avx512-vnni": (_V4 | {"avx512_vnni"}, ("-march=x86-64-v4", "-mavx512vnni")),
    "avx512": (_V4, ("-march=x86-64-v4",)),
    "avx2-vnni": (_V3 | {"avx_vnni"}, ("-march=x86-64-v3", "-mavxvnni")),
    "avx2": (_V3, ("-march=x86-64-v3",)),
    "neon-dotprod": (frozenset({"asimd", "asimddp"}), ("-march=armv8.2-a+dotprod",)),
    "portable": (frozenset(), ()),
}
"""Instruction sets, best first: what /proc/cpuinfo calls them, and the compiler's flags."""
# -ffp-contract=off: the same arithmetic in two places must round alike. Of several libraries in one process, each has
# its own symbols.
_FLAGS = ("-O3", "-std=c++20", "-ffp-contract=off", "-fPIC", "-shared", "-pthread", "-fvisibility=hidden")
_LONGEST = 300  # seconds
_SHIPPED = _HERE / "lib"  # in wheels
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
def features() -> frozenset[str]:
    """What the CPU has, as /proc/cpuinfo calls it; AMX only where the system lets this process use it."""
    if platform.system() == "Darwin" and platform.machine() == "arm64":
        return frozenset({"asimd", "asimddp"})  # all of Apple's have both, and no /proc/cpuinfo
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:  # no Linux
        return frozenset()
    found = next((line.split() for line in lines if line.startswith(("flags", "Features"))), [])
    has_tiles = "amx_tile" in found and _may_use_tiles()
    return frozenset(feature for feature in found if has_tiles or not feature.startswith("amx"))


def _may_use_tiles() -> bool:
    """Ask Linux for the registers of AMX, which a process gets on request only; all its threads may use them then."""
    return bool(ctypes.CDLL(None).syscall(_ARCH_PRCTL, _REQUEST_STATE, _TILE_DATA) == 0)


def instructions() -> str:
    """The instruction set in use: the best that the CPU has, or the one that `SPECEXTEND_ISA` names.

    CannotCompileError where that is none of `INSTRUCTIONS`, or the CPU lacks it.
    """
    able = [name for name, (needed, _) in INSTRUCTIONS.items() if needed <= features()]
    chosen = os.environ.get(VARIABLE) or able[0]
    if chosen not in able:
        raise CannotCompileError(f"{VARIABLE}={chosen}: this CPU has {', '.join(able)}")
    return chosen


def flags_of(name: str) -> tuple[str, ...]:
    """The compiler's flags for an instruction set."""
    return (*_FLAGS, *INSTRUCTIONS[name][1])


@cache
def file_name(name: str, machine: str) -> str:
    """The library's file for an instruction set of a machine: another one for every version of the sources."""
    digest = hashlib.sha256(repr((platform.system(), machine, flags_of(name))).encode())
    for source in SOURCES:
        digest.update(source.read_bytes())
    return f"native-{name}-{digest.hexdigest()[:16]}.so"


@dataclass(frozen=True)
class Library:
    """The file of this version for an instruction set, whether it exists or not."""

    file: Path
    flags: tuple[str, ...]

    @classmethod
    def within(cls, directory: Path, *, shipped: bool = True) -> Library:
        """For `instructions`: from the package if it came compiled (`shipped`), else in `directory`."""
        name = instructions()
        file = file_name(name, platform.machine())
        is_there = shipped and (_SHIPPED / file).exists()
        return cls((_SHIPPED if is_there else directory) / file, flags_of(name))

    @property
    def is_made(self) -> bool:
        """Whether the file came with the package, or exists, whole, and ours; otherwise `make` it."""
        return self.is_shipped or is_good(self.file)

    @property
    def is_shipped(self) -> bool:
        """Whether it came with the package. Then it may have been made for another system's C library."""
        return self.file.parent == _SHIPPED

    def make(self) -> None:
        """Compile. CannotCompileError, with no file left."""
        made = self.file.with_name(f"{self.file.name}.{os.getpid()}")
        command = [*compiler(), *self.flags, str(SOURCES[-1]), "-o", str(made)]
        try:
            make_private(self.file.parent)
            done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=_LONGEST)
            if done.returncode:
                raise CannotCompileError(f"the C++ compiler failed: {_first_error(done.stderr)}")
            publish(made, self.file)
        except subprocess.TimeoutExpired as error:
            raise CannotCompileError(f"the C++ compiler took longer than {_LONGEST} seconds") from error
        except (OSError, subprocess.SubprocessError) as error:
            raise CannotCompileError(f"{type(error).__name__}: {error}") from error
        finally:
            made.unlink(missing_ok=True)

    def load(self) -> None:
        """Load into this process, for its lifetime.

        CannotCompileError if it is damaged, could have been written by others, or cannot be loaded.
        """
        global _loaded
        if _loaded is not None:
            return
        try:
            library = ctypes.CDLL(str(self.file if self.is_shipped else checked(self.file)))
        except UntrustedError as error:
            raise CannotCompileError(str(error)) from error
        except OSError as error:
            # Not removed: where no library can be loaded, every run would compile it again.
            raise CannotCompileError(f"{type(error).__name__}: {error}; remove {self.file}") from error
        _declare(library)
        _loaded = library


_loaded: ctypes.CDLL | None = None


def is_loaded() -> bool:
    """Whether `library` can be called."""
    return _loaded is not None


def library() -> ctypes.CDLL:
    """The loaded library."""
    assert _loaded is not None
    return _loaded


def _first_error(output: str) -> str:
    lines = output.strip().splitlines() or ["it said nothing"]
    return next((line for line in lines if "error" in line), lines[-1])[:200]


_DECLARED = re.sub("//.*", "", (_HERE / "specextend.h").read_text())
_TYPES: dict[str, Any] = {"int64_t": ctypes.c_int64, "float": ctypes.c_float}
_RETURNED = {"void": None, "int64_t": ctypes.c_int64}


def _declared(text: str) -> Iterator[tuple[str, Any]]:
    """Names and types of what C declares as `const float *a, *b`; a pointer is an address."""
    kind, names = re.findall(r"(?:const )?(\w+)\b(.*)", text, re.DOTALL)[0]
    for name in names.split(","):
        yield re.findall(r"\w+", name)[-1], ctypes.c_void_p if "*" in name else _TYPES[kind]


for _fields, _name in re.findall(r"struct \{(.*?)\} (\w+);", _DECLARED, re.DOTALL):
    _members = [member for declaration in _fields.split(";")[:-1] for member in _declared(declaration)]
    _TYPES[_name] = type(_name, (ctypes.Structure,), {"_fields_": _members})
Matrix, Layer, Model, ForwardStep = (_TYPES[name] for name in ("SxMatrix", "SxLayer", "SxModel", "SxStep"))
"""Structures of the interface, with the fields that the header declares."""


def _declare(loaded: ctypes.CDLL) -> None:
    """Tell what the functions of the interface take and return."""
    for returned, name, taken in re.findall(r"SX_API (\w+) (sx_\w+)\((.*?)\);", _DECLARED, re.DOTALL):
        function = getattr(loaded, name)
        function.argtypes = [kind for each in taken.split(",") for _, kind in _declared(each)]
        function.restype = _RETURNED[returned]
