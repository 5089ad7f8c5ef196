"""Files that are loaded as code: written whole, in a directory that nobody else can write, checked before loading.

A cache may be writable for others, by `XDG_CACHE_HOME` or a permissive `umask`, and a file may be cut off when a
machine stops. The directory must therefore belong to this user alone, as must every parent that could be replaced, and
each file's SHA-256 sum is written beside it and compared before the file is loaded.
"""

from __future__ import annotations

import contextlib
import grp
import hashlib
import os
import pwd
import stat
from pathlib import Path


class UntrustedError(PermissionError):
    """Another user could have written the file; the message says what to do."""


class DamagedError(OSError):
    """The file is not what was written."""


def create(directory: Path) -> None:
    """Create `directory` and its parents for this user alone, whatever the umask; existing ones are unchanged."""
    for place in (*reversed(directory.parents), directory):
        place.mkdir(mode=0o700, exist_ok=True)


def make_private(directory: Path) -> None:
    """Create `directory`, or restrict it, for this user alone. UntrustedError where others can replace it."""
    create(directory)
    real = directory.resolve()
    if real.stat().st_uid == os.geteuid():
        real.chmod(0o700)  # it may have been made by hand, with a looser umask
    _check_place(real)


def publish(made: Path, file: Path) -> None:
    """Move `made`, from the same directory, to `file`, whole or not at all, and record its digest."""
    made.chmod(0o600)
    sync(made)
    record, partial = _record(file), _record(made)
    partial.write_text(sha256(made))
    partial.chmod(0o600)
    sync(partial)
    file.unlink(missing_ok=True)  # an old file beside the new record would count as damaged for good
    partial.replace(record)
    made.replace(file)
    sync(file.parent)


def is_good(file: Path) -> bool:
    """Whether `file` exists, is ours, and is what was written."""
    try:
        _check_file(file)
    except OSError:
        return False
    return True


def checked(file: Path) -> Path:
    """The real path of `file`, to load it from. UntrustedError, DamagedError, or another OSError."""
    real = file.resolve(strict=True)
    _check_place(real.parent)
    _check_file(file)
    return real


def _check_file(file: Path) -> None:
    record = _record(file)
    for path in (file, record):
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):
            raise DamagedError(f"{path} is no file")
        if found.st_uid not in _trusted() or _others_write(found):
            raise UntrustedError(f"{path} belongs to another user, or others can write it; remove it")
    if record.read_text(errors="replace") != sha256(file):
        raise DamagedError(f"{file} is damaged")


def _check_place(real: Path) -> None:
    """UntrustedError unless only we and the system can write `real`, a path without links, or replace its parents.

    In a directory with the sticky bit, such as /tmp, others cannot replace files that are not theirs.
    """
    for place in (real, *real.parents):
        found = place.stat()
        sticky = place != real and found.st_mode & stat.S_ISVTX
        if found.st_uid not in _trusted() or (_others_write(found) and not sticky):
            why = "can be written by other users" if found.st_uid in _trusted() else "belongs to another user"
            raise UntrustedError(
                f"{place} {why}, so no compiled code is loaded from {real}; set XDG_CACHE_HOME to a directory of yours"
            )


def _trusted() -> set[int]:
    """Users with full power anyway: this one, root, and the owner of the file system's root."""
    return {0, os.geteuid(), Path("/").stat().st_uid}  # the last is root, under another number, in a user namespace


def _others_write(found: os.stat_result) -> bool:
    if found.st_mode & stat.S_IWOTH:
        return True
    return bool(found.st_mode & stat.S_IWGRP) and not _is_own_group(found.st_gid)


def _is_own_group(group: int) -> bool:
    """Whether nobody else is in the group: root's, or the user's own group that many systems create."""
    if group == 0:
        return True
    with contextlib.suppress(KeyError):
        own = pwd.getpwuid(os.geteuid())
        named = grp.getgrgid(group)
        return own.pw_gid == group and named.gr_name == own.pw_name and set(named.gr_mem) <= {own.pw_name}
    return False


def _record(file: Path) -> Path:
    return file.with_name(f"{file.name}.sha256")


def sha256(file: Path) -> str:
    """The SHA-256 sum of a file, in hexadecimal."""
    with file.open("rb") as opened:
        digest = hashlib.sha256()
        while block := opened.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def sync(path: Path) -> None:
    """Write a file, or a directory's entries, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
