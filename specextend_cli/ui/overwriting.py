"""Overwrite protection: never overwrite an input, and an existing file only with `--force`; checked before any work."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from pathlib import Path

from specextend_cli.errors import UsageError


def refuse_inputs(outputs: Iterable[Path], inputs: Iterable[Path | int]) -> None:
    """UsageError, even with `--force`, if one of `outputs` is one of `inputs`; an int is an open descriptor."""
    reading = {identity: _name(one) for one in inputs if (identity := _identity(one)) is not None}
    for output in outputs:
        if (identity := _identity(output)) and (name := reading.get(identity)):
            also = "" if name == str(output) else f" as {name}"
            why = "the result would replace its own input"
            raise UsageError(f"the output {output} is read by this command{also}", why=why, fix="name another output")


def refuse_redirection(inputs: Iterable[Path | int], stdout: int) -> None:
    """UsageError if the descriptor `stdout` is redirected into a file that is read, as by `>> report.txt`."""
    found = _identity(stdout)
    for source in inputs if found is not None else ():
        if _identity(source) == found:
            empty = "; the shell has emptied it already" if not os.fstat(stdout).st_size else ""
            why, fix = f"the result would be written into what is read{empty}", "redirect it into another file"
            raise UsageError(f"stdout is redirected into the input, {_name(source)}", why=why, fix=fix)


def refuse_existing(outputs: Iterable[Path], *, force: bool) -> None:
    """UsageError if one of `outputs` exists, unless overwriting is forced."""
    for output in outputs:
        if not force and output.is_file():  # devices and pipes are written to, not replaced
            raise exists_already(output)


def exists_already(path: Path) -> UsageError:
    """The error for a result that would overwrite a file."""
    fix = "--force writes it again; or name another"
    return UsageError(f"{path} exists already", why="existing files are not overwritten", fix=fix)


def _name(one: Path | int) -> str:
    return "stdin" if isinstance(one, int) else str(one)


def _identity(one: Path | int) -> tuple[int, int] | None:
    """Device and inode of a file or directory; None for pipes, devices and what does not exist."""
    try:
        status = os.fstat(one) if isinstance(one, int) else one.stat()
    except (OSError, ValueError):
        return None
    kept = stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)
    return (status.st_dev, status.st_ino) if kept else None
