"""The file of an n-gram table, beside a draft head: rows of numbers, which may be damaged or hostile."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import BadZipFile, ZipFile

import numpy as np
from numpy.typing import NDArray

from specextend_cli.models.checkpoint import usable

if TYPE_CHECKING:
    from specextend_cli.engine.drafters.table import NgramTable

FILE = "ngrams.npz"
"""Its name in a draft's directory."""
_BYTES = 256 << 20  # the most that its arrays may have
KEPT = 3
"""Continuations of a context."""


def load_table(directory: Path, vocabulary: int) -> NgramTable:
    """The table in a draft's directory. ModelError: it is missing or damaged, or has tokens that the target has not."""
    from specextend_cli.engine.drafters.table import NgramTable

    path, fix = directory / FILE, "copy it again from where the head came from, or remove it"
    with usable(f"{path} holds no n-gram table", fix=fix):
        found = read_arrays(path, ("keys", "tokens", "counts", "totals"), most=_BYTES)
        keys, totals = found["keys"], found["totals"]
        tokens, counts = (found[name].reshape(len(keys), KEPT) for name in ("tokens", "counts"))
        if any(array.dtype.kind != "i" for array in found.values()) or tokens.shape != counts.shape:
            raise ValueError("its arrays do not fit each other")
        if len(totals) != len(keys) or tokens.min(initial=0) < 0 or tokens.max(initial=0) >= vocabulary:
            raise ValueError(f"it has tokens beyond the target's {vocabulary:,}, or too few rows")
        if counts.min(initial=0) < 0 or (counts > totals[:, None]).any():
            raise ValueError("a continuation was counted more often than its context")
        shares = counts / (totals[:, None] + 1.0)  # one more: something may follow that never did
        return NgramTable(dict(zip(keys.tolist(), range(len(keys)), strict=True)), tokens.tolist(), shares.tolist())


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
