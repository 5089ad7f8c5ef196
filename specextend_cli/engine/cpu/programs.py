"""Compiled programs: what torch.export traces and AOTInductor compiles, kept in files and loaded again.

A program is a function of tensors alone. Weights are arguments, so that one program serves every layer of a model;
cached keys are only read, and new ones are returned.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import stat
import tempfile
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Protocol, TypeAlias, cast

import torch
import transformers
from torch import Tensor, nn

from specextend_cli.engine.forward import ForwardBackend
from specextend_cli.engine.native.compiler import CannotCompileError, compiler, first_line
from specextend_cli.engine.private_files import UntrustedError, checked, discard, is_good, make_private, publish

MOST = 16
"""Rows of a program, except a prompt's: for more rows, larger matrix products are faster."""
TOLERANCE = {torch.float32: 1e-3, torch.bfloat16: 0.1, torch.float16: 0.05}
"""Relative distance up to which a program's logits count as the module's own."""
Run: TypeAlias = Callable[[list[Tensor]], list[Tensor]]

_VERSION = 5  # of the programs: files of another are not read
_UNPACKED = "aotinductor_"
_NAME = re.compile(r"(token|tree|batch|prompt|head-rows?)-[0-9a-f]{16}")
_OLD = 3600  # seconds; by then the process that unpacked a program has loaded it or ended


class Traceable(Protocol):
    """A module of tensors alone, with inputs to trace it with and their dynamic dimensions."""

    def example(self) -> tuple[Any, ...]:
        """Inputs."""

    def dynamic_shapes(self) -> tuple[Any, ...]:
        """As torch.export takes them."""


@dataclass(frozen=True)
class Programs(ABC):
    """A module's programs on this machine: a file for each kind."""

    files: Mapping[str, Path]

    @property
    def missing(self) -> list[str]:
        """Kinds that are not compiled yet, or whose file is damaged."""
        return [kind for kind, file in self.files.items() if not is_good(file)]

    @property
    def compared(self) -> Path:
        """A marker: these programs were found to compute what the module does."""
        return next(iter(self.files.values())).with_suffix(".checked")

    def make(self) -> Iterator[str]:
        """Compile what is missing, about ten seconds each; yields the kind that comes next. CannotCompileError."""
        for kind in self.missing:
            compiler()
            yield kind
            self.compared.unlink(missing_ok=True)
            self._compile(kind)

    @abstractmethod
    def _compile(self, kind: Any) -> None:
        """Write the file of `kind`."""

    def load(self) -> dict[str, Run]:
        """All programs. CannotCompileError where one does not load; its file is removed if it is damaged."""
        return {kind: self._load(file) for kind, file in self.files.items()}

    def _load(self, file: Path) -> Run:
        try:
            return load_program(file)
        except CannotCompileError as error:
            if not isinstance(error.__cause__, UntrustedError):  # another user's file is not ours to remove
                discard(file)
                self.compared.unlink(missing_ok=True)
            raise


def install(model: Any, runner: ForwardBackend[Any], trial: Callable[[], Tensor], dtype: torch.dtype) -> None:
    """Let `model` run `runner`. CannotCompileError unless the logits of a `trial` stay the same up to rounding."""
    before = trial()
    model.forward_backend = runner
    try:
        same = float((trial() - before).norm() / before.norm()) <= TOLERANCE[dtype]
    except RuntimeError:  # for instance, shapes that do not fit
        same = False
    if not same:
        model.forward_backend = None
        raise CannotCompileError("the compiled programs compute something else than the model")


def check_packages() -> None:
    """CannotCompileError unless this torch can load AOTInductor packages."""
    if not hasattr(torch._C, "_aoti"):
        raise CannotCompileError(f"torch {torch.__version__} has no AOTInductor packages")


def digest(facts: dict[str, Any]) -> str:
    """A hash of what a program depends on, the versions of torch, transformers and this module included."""
    known = {"versions": (_VERSION, torch.__version__, transformers.__version__), **facts}
    return hashlib.sha256(json.dumps(known, sort_keys=True, default=str).encode()).hexdigest()[:16]


def build(traced: Traceable, file: Path) -> None:
    """Trace and compile `traced`, a module, into `file`. CannotCompileError, with no file left."""
    try:
        make_private(file.parent)
        with warnings.catch_warnings(), tempfile.TemporaryDirectory() as scratch, _own_cache():
            warnings.simplefilter("ignore")
            with torch.no_grad():
                exported = torch.export.export(
                    cast(nn.Module, traced), traced.example(), dynamic_shapes=traced.dynamic_shapes(), strict=False
                )
            package = Path(scratch) / file.name
            torch._inductor.aoti_compile_and_package(exported, package_path=str(package))
            whole = file.with_name(f"{file.name}.{os.getpid()}")
            try:
                whole.write_bytes(package.read_bytes())
                publish(whole, file)
            finally:
                whole.unlink(missing_ok=True)
    except Exception as error:  # a tracer, a code generator or a C++ compiler may raise anything: run without
        raise CannotCompileError(first_line(error)) from error


def load_program(file: Path) -> Run:
    """CannotCompileError where the file is damaged, of another machine, or could have been written by others."""
    try:
        run: Run = _loader(str(checked(file))).run
        remove_unpacked()
        return run
    except UntrustedError as error:
        raise CannotCompileError(str(error)) from error
    except Exception as error:  # a torn archive or a library that does not link: RuntimeError or OSError
        raise CannotCompileError(first_line(error)) from error


def _loader(file: str) -> Any:
    """torch's loader without the compiler around it, whose import takes longer than loading a model."""
    try:
        return torch._C._aoti.AOTIModelPackageLoader(file, "model", False, 1, -1)
    except (AttributeError, TypeError):  # other versions of torch
        return torch._inductor.aoti_load_package(file).loader


def _own_cache() -> Any:
    """A separate directory for Inductor's scratch files, removed afterwards."""
    from torch._inductor import utils

    fresh = getattr(utils, "fresh_cache", None) or getattr(utils, "fresh_inductor_cache", None)
    return fresh() if fresh else nullcontext()


def remove_unpacked() -> None:
    """Remove the directories `aotinductor_...` that torch unpacked our programs into. Raises nothing.

    torch removes them at exit, but not in a process that is killed. A loaded library does not need its file, so this
    process's directories go at once, those of others after an hour.
    """
    try:
        maps = Path("/proc/self/maps").read_text(errors="replace")
    except OSError:  # not Linux: torch removes them at exit
        maps = ""
    for found in re.finditer(rf"(/\S*/{_UNPACKED}\w+)/([^/\s]+)/\S*", maps):
        if _NAME.fullmatch(found[2]):
            shutil.rmtree(found[1], ignore_errors=True)
    _sweep(Path(tempfile.gettempdir()))


@cache
def _sweep(directory: Path) -> None:
    """Once per process: remove directories of our programs that are more than an hour old."""
    before = time.time() - _OLD
    for folder in directory.glob(f"{_UNPACKED}*"):
        with suppress(OSError):  # another process removed it
            found = folder.lstat()
            is_old = found.st_uid == os.geteuid() and found.st_mtime < before
            if stat.S_ISDIR(found.st_mode) and is_old and any(_NAME.fullmatch(x.name) for x in folder.iterdir()):
                shutil.rmtree(folder, ignore_errors=True)
