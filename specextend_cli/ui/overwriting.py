"""What must not be written over: every file that a command reads, and, unless it is forced to, whatever exists.

Both are checked before anything is read or loaded, so that a refusal costs nothing and loses nothing.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from pathlib import Path

from specextend_cli.errors import UsageError


def refuse_inputs(outputs: Iterable[Path], inputs: Iterable[Path | int]) -> None:
    """UsageError if one of `outputs` is one of `inputs`, by whatever name or link; an int is an open descriptor.

    It stays an error when overwriting is forced: whoever forces it means the result of an earlier run.
    """
    reading = {identity: one for one in inputs if (identity := _identity(one)) is not None}
    for output in outputs:
        if (identity := _identity(output)) in reading and identity is not None:
            source = reading[identity]
            name = "stdin" if isinstance(source, int) else str(source)
            also = "" if name == str(output) else f" as {name}"
            raise UsageError(
                f"the output {output} is read by this command{also}",
                why="the result would replace what it was made from",
                fix="name another output",
            )


def refuse_redirection(inputs: Iterable[Path | int], stdout: int) -> None:
    """UsageError if the descriptor `stdout` is redirected into a file that is read, as by `>> report.txt`."""
    found = _identity(stdout)
    if found is None:
        return
    for source in inputs:
        if _identity(source) == found:
            name = "stdin" if isinstance(source, int) else str(source)
            empty = "; the shell has emptied it already" if not os.fstat(stdout).st_size else ""
            raise UsageError(
                f"stdout is redirected into the input, {name}",
                why=f"the result would be written into what is read{empty}",
                fix="redirect it into another file",
            )


def refuse_existing(outputs: Iterable[Path], *, force: bool) -> None:
    """UsageError if there is already a file at one of `outputs`, unless it is to be overwritten."""
    for output in outputs:
        if not force and output.exists() and _is_file(output):
            raise exists_already(output)


def exists_already(path: Path) -> UsageError:
    """The error for a result that would replace a file."""
    return UsageError(
        f"{path} exists already", why="nothing is overwritten unasked", fix="--force writes it again; or name another"
    )


def _is_file(path: Path) -> bool:
    """Whether there is something to lose: devices and pipes are written to, not replaced."""
    return stat.S_ISREG(path.stat().st_mode)


def _identity(one: Path | int) -> tuple[int, int] | None:
    """What a file or directory is, whatever it is called; None for what holds nothing, or is not there."""
    try:
        status = os.fstat(one) if isinstance(one, int) else one.stat()
    except (OSError, ValueError):
        return None
    kept = stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)
    return (status.st_dev, status.st_ino) if kept else None
