"""The three standard streams of the process, made safe before anything is opened or written. Imports no Rich: `--help`.

A closed descriptor would be reused by the next file that is opened, which would then receive output. Errors on stderr
(a full disk, a reader that is gone) lose messages, never the result.
"""

from __future__ import annotations

import fcntl
import io
import os
import sys
from contextlib import suppress
from typing import TextIO

STDIN, STDOUT, STDERR = 0, 1, 2


def prepare() -> None:
    """Open closed streams on /dev/null, and make writing to stderr never fail. Called at the start of `main`."""
    # stdout gets a read-only descriptor: a result that goes nowhere is an error.
    for descriptor, mode in ((STDIN, os.O_RDONLY), (STDOUT, os.O_RDONLY), (STDERR, os.O_WRONLY)):
        with suppress(OSError):
            os.fstat(descriptor)
            continue
        opened = os.open(os.devnull, mode)
        if opened != descriptor:
            os.dup2(opened, descriptor)
            os.close(opened)
    if sys.stdin is None:
        sys.stdin = os.fdopen(STDIN, closefd=False)
    if sys.stdout is None:
        sys.stdout = os.fdopen(STDOUT, "w", closefd=False)
    encoding = "utf-8" if sys.stderr is None else sys.stderr.encoding
    stderr = io.BufferedWriter(_Forgiving(STDERR, "w", closefd=False))
    sys.stderr = io.TextIOWrapper(stderr, encoding=encoding, errors="backslashreplace", line_buffering=True)


class _Forgiving(io.FileIO):
    def write(self, data: object) -> int:
        """Write the data, or drop it and report success."""
        try:
            written = super().write(data)  # type: ignore[arg-type]  # whatever the buffer above hands over
        except OSError:
            written = None
        return len(data) if written is None else written  # type: ignore[arg-type]


def is_writable(stream: TextIO) -> bool:
    """True if the descriptor of the stream is writable; True without one."""
    try:
        return fcntl.fcntl(stream.fileno(), fcntl.F_GETFL) & os.O_ACCMODE != os.O_RDONLY
    except (OSError, ValueError):
        return True


def status_of(stream: TextIO) -> os.stat_result | None:
    """What the descriptor of the stream is; None without one."""
    try:
        return os.fstat(stream.fileno())
    except (OSError, ValueError):
        return None
