"""A GGUF file out of a wheel on the Python package index: found where it is installed, or fetched.

The wheel serves as a parcel: it is never installed by us and its code never runs, not even where it is installed.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import shutil
import zipfile
from pathlib import Path

from specextend_cli.errors import ModelError
from specextend_cli.models import package_index, pip, store
from specextend_cli.models.preset import WheelSource
from specextend_cli.models.progress import Progress, silent

_NAME = "model.gguf"
"""What the file is called in our cache, whatever its name in the wheel."""


def obtain(source: WheelSource, *, name: str, offline: bool = False, progress: Progress = silent) -> Path:
    """The path of the file, its hash checked: from the installed distribution, the cache, or the package index.

    `name` is what the user calls the preset. ModelError: offline and not here, no network, or a hash that does not
    match (what was fetched is deleted). FitError: the disk is full.
    """
    if (installed := find_installed(source)) is not None and store.sha256(installed) == source.sha256:
        return installed
    directory = download_directory(source)
    if store.problem(directory) is not None:
        if offline:
            raise ModelError(
                f"the model of {name} is not on this machine",
                why=f"{source} would have to be fetched, and this run is offline",
                fix=f"specextend models pull {name}",
            )
        need = source.wheel_bytes + source.file_bytes
        store.build(directory, lambda into: _download(source, into, progress), need=need, progress=progress)
    return directory / _NAME


def find_installed(source: WheelSource) -> Path | None:
    """The file inside the installed distribution of the pinned version. Its package is not imported."""
    try:
        distribution = importlib.metadata.distribution(source.package)
    except importlib.metadata.PackageNotFoundError:
        return None
    path = Path(str(distribution.locate_file(source.file)))
    return path if distribution.version == source.version and path.is_file() else None


def download_directory(source: WheelSource) -> Path:
    """Where the file is kept between its download and its conversion."""
    return store.cache_root() / "downloads" / f"{source.package}-{source.version}-{source.sha256[:12]}"


def _download(source: WheelSource, into: Path, progress: Progress) -> None:
    parcel = into / "parcel"
    parcel.mkdir()
    wheel = _fetch_wheel(source, parcel, progress)
    progress("checking", 0, source.wheel_bytes)
    if (found := store.sha256(wheel)) != source.wheel_sha256:
        raise _mismatch(f"{wheel.name} from the package index", source.wheel_sha256, found)
    _extract(source, wheel, into / _NAME, progress)
    shutil.rmtree(parcel)


def _fetch_wheel(source: WheelSource, into: Path, progress: Progress) -> Path:
    """By pip, which knows the user's indexes, proxies and certificates; without it, from the index over HTTPS."""
    # Looking for its spec instead would stop setuptools from being imported.
    if any(importlib.metadata.distributions(name="pip")):
        return pip.download(source, into, progress)
    return package_index.download(source, into, progress)


def _extract(source: WheelSource, wheel: Path, to: Path, progress: Progress) -> None:
    """Copy the one member, by its exact name and at its exact size, and check its hash."""
    digest, done = hashlib.sha256(), 0
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(source.file) as member, to.open("wb") as out:
            while block := member.read(1 << 20):
                done += len(block)
                if done > source.file_bytes:
                    raise ModelError(f"{source.file} in {wheel.name} is larger than {source.file_bytes:,} bytes")
                digest.update(block)
                out.write(block)
                progress("extracting", done, source.file_bytes)
    except (zipfile.BadZipFile, KeyError) as error:
        raise ModelError(f"cannot take {source.file} out of {wheel.name}", why=str(error)) from error
    if digest.hexdigest() != source.sha256:
        raise _mismatch(source.file, source.sha256, digest.hexdigest())


def _mismatch(what: str, expected: str, found: str) -> ModelError:
    return ModelError(
        f"{what} is not the file it should be; it was deleted",
        why=f"its SHA-256 sum is {found}, and {expected} is expected",
        fix="try again; if it stays so, the index or a proxy serves another file",
    )
