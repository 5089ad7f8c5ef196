"""What torch leaves of a program that it loads: a directory `aotinductor_…` with the library that it took out of it.

torch removes it when the process ends as it should; one that is killed leaves two megabytes a program. A library that
is loaded does not need its file any more, so its directory goes at once, and those of earlier processes later.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import tempfile
import time
from contextlib import suppress
from functools import cache
from pathlib import Path

_NAME = "aotinductor_"
_PROGRAM = re.compile(
    r"(token|tree|batch|prompt|head-rows?)-[0-9a-f]{16}"
)  # as `program.py` and `compiled_head.py` say
_OLD = 3600  # seconds; whoever unpacked it then has loaded it or is gone


def remove_unpacked() -> None:
    """Remove what this process loaded programs of ours from, and what others left. Nothing is raised."""
    try:
        maps = Path("/proc/self/maps").read_text(errors="replace")
    except OSError:  # no Linux: torch removes it at the end
        maps = ""
    for found in re.finditer(rf"(/\S*/{_NAME}\w+)/([^/\s]+)/\S*", maps):
        if _PROGRAM.fullmatch(found[2]):
            shutil.rmtree(found[1], ignore_errors=True)
    _sweep(Path(tempfile.gettempdir()))


@cache
def _sweep(directory: Path) -> None:
    """Once a process: directories with a program of ours that nobody has touched for an hour."""
    before = time.time() - _OLD
    for folder in directory.glob(f"{_NAME}*"):
        with suppress(OSError):  # another process was quicker
            found = folder.lstat()
            is_old = found.st_uid == os.geteuid() and found.st_mtime < before
            if stat.S_ISDIR(found.st_mode) and is_old and any(_PROGRAM.fullmatch(x.name) for x in folder.iterdir()):
                shutil.rmtree(folder, ignore_errors=True)
