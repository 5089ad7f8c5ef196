"""Rows of numbers in .npz files, which may be damaged or hostile."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile

import numpy as np
from numpy.typing import NDArray


def read_arrays(path: Path, names: tuple[str, ...], *, most: int) -> dict[str, NDArray[Any]]:
    """Arrays of finite numbers, of one dimension each and of at most `most` bytes together. ValueError says why not."""
    try:
        with ZipFile(path) as members:
            if sum(member.file_size for member in members.infolist()) > most:
                raise ValueError(f"its arrays have more than {most:,} bytes")
        with np.load(path, allow_pickle=False) as stored:
            found = {name: stored[name] for name in names}
    # What zipfile, zlib and numpy raise of a damaged or hostile archive.
    except (OSError, KeyError, EOFError, MemoryError, BadZipFile, zlib.error, NotImplementedError) as error:
        raise ValueError(str(error)) from error
    for name, array in found.items():
        if array.ndim != 1 or array.dtype.kind not in "if" or not np.isfinite(array).all():
            raise ValueError(f"{name} is no row of numbers")
    return found
