"""The cache: directories, each built atomically and by one process at a time; small files.

`build(directory, fill)` lets `fill` write into a temporary directory beside the final one and renames it when it is
complete, so that one which is there is whole. A second process waits for a lock file; what a killed one left is deleted
under the same lock.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import platformdirs
from filelock import FileLock, Timeout

from specextend_cli.engine.private_files import create, sha256, sync
from specextend_cli.errors import FitError, ModelError, cause
from specextend_cli.humanize import format_bytes

_OFFLINE = "this run is offline (--offline, SPECEXTEND_OFFLINE or HF_HUB_OFFLINE)"

Progress: TypeAlias = Callable[[str, int, int], None]
"""`progress(step, done, total)`, in bytes. `total` is 0 where it is not known. It may be called from a thread."""


def silent(step: str, done: int, total: int) -> None:
    """Report nothing: the default wherever a `Progress` is taken."""


def cache_root() -> Path:
    """The user's cache directory of this program."""
    return Path(platformdirs.user_cache_dir("specextend"))


def write_whole(file: Path, text: str) -> None:
    """Write a small file that other processes may read meanwhile: they see the old text or the new one."""
    file.parent.mkdir(parents=True, exist_ok=True)
    made = file.with_name(f"{file.name}.{os.getpid()}")
    made.write_text(text, encoding="utf-8")
    made.replace(file)


def build(directory: Path, fill: Callable[[Path], None], *, need: int = 0, progress: Progress = silent) -> None:
    """Make `directory` by `fill(temporary directory)`, unless it is there.

    FitError: fewer than `need` bytes of the disk are free, or it fills up during the build. Nothing is left behind when
    `fill` fails.
    """
    with full_disk_is_a_fit_error(directory):
        create(directory.parent)
        with lock(_lock_of(directory), progress):
            temporary = _sweep(directory)
            if directory.is_dir():
                return
            check_space(directory, need)
            try:
                temporary.mkdir()
                fill(temporary)
                for path in (*temporary.rglob("*"), temporary):
                    sync(path)
                temporary.rename(directory)
                sync(directory.parent)
            except BaseException:
                shutil.rmtree(temporary, ignore_errors=True)
                raise


def check_space(directory: Path, need: int) -> None:
    """FitError where fewer than `need` bytes of the disk are free."""
    existing = next(path for path in directory.parents if path.exists())
    if (free := shutil.disk_usage(existing).free) < need:
        raise _too_small(directory, f"{format_bytes(free)} are free and {format_bytes(need)} are needed")


def remove(directory: Path) -> int:
    """Delete a built directory and the remains of killed builds; returns the bytes freed."""
    if not directory.parent.is_dir():
        return 0
    freed = size_on_disk(directory)
    with lock(_lock_of(directory), silent):
        _sweep(directory)
        if directory.exists():
            shutil.rmtree(directory)
    return freed


def size_on_disk(directory: Path) -> int:
    """Bytes of all files under `directory`, links followed; 0 if there is none. Files may vanish meanwhile."""
    size = 0
    for path in directory.rglob("*"):
        with contextlib.suppress(FileNotFoundError):
            size += path.stat().st_size if path.is_file() else 0
    return size


_UNUSABLE = (errno.EACCES, errno.EROFS, errno.EPERM, errno.ENOTDIR, errno.EEXIST, errno.ENOENT)
"""Of a cache that is read-only, or below a file or a link to nowhere."""


@contextlib.contextmanager
def full_disk_is_a_fit_error(directory: Path) -> Iterator[None]:
    """Turn "no space left" and "quota exceeded" into a FitError, and an unusable cache into a ModelError."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise _too_small(directory, error.strerror or "no space left") from error
        if error.errno in _UNUSABLE:
            raise ModelError(
                f"cannot write the model cache {directory.parent}",
                why=cause(error),
                fix=f"make {directory.parent} writable, or set {_variable(directory)} to a directory that is",
            ) from error
        raise


def check_sum(file: Path, expected: str, what: str) -> None:
    """ModelError where the SHA-256 sum of the contents is another one than `expected`; the file is deleted then."""
    if (found := sha256(file)) == expected:
        return
    for one in (file.resolve(), file):  # a link, too
        one.unlink(missing_ok=True)
    raise ModelError(
        f"{what} is not the file it should be; it was deleted",
        why=f"its SHA-256 sum is {found}, and {expected} is expected",
        fix="try again; if it stays so, its publisher, a proxy or a mirror serves another file",
    )


def offline_error(what: object, name: str) -> ModelError:
    """The error of a run that may not fetch what it needs; `name` is what the user calls the preset."""
    return ModelError(
        f"the model {what} is not on this machine",
        why=f"it would have to be fetched, and {_OFFLINE}",
        fix=f"specextend models pull {name}",
    )


@contextlib.contextmanager
def watched(step: str, measure: Callable[[], int], total: int, progress: Progress) -> Iterator[None]:
    """Report `measure()` of `total` a few times a second while the body downloads, and once when it succeeds."""
    done = threading.Event()

    def watch() -> None:
        while not done.wait(0.3):
            progress(step, min(measure(), total), total)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()
    progress(step, total, total)


def _variable(directory: Path) -> str:
    """The variable of the environment that says where the cache is."""
    return "XDG_CACHE_HOME" if directory.is_relative_to(cache_root()) else "HF_HUB_CACHE"


def _too_small(directory: Path, why: str) -> FitError:
    return FitError(
        f"the disk is too full for {directory}",
        why=why,
        fix=f"free some space there, or set {_variable(directory)} to a directory on another disk",
    )


@contextlib.contextmanager
def lock(file: Path, progress: Progress) -> Iterator[None]:
    """Hold the lock `file`, alone among processes; says so where it has to wait for it."""
    held = FileLock(file)
    try:
        acquired = held.acquire(timeout=0)
    except Timeout:
        progress("waiting for another process", 0, 0)
        acquired = held.acquire()
    with acquired:
        yield


def _lock_of(directory: Path) -> Path:
    return directory.parent / f".{directory.name}.lock"


def _sweep(directory: Path) -> Path:
    """Delete the remains of a killed build, under the lock; returns the path, which is free now."""
    temporary = directory.with_name(f".{directory.name}.building")
    if temporary.exists():
        shutil.rmtree(temporary)
    return temporary
