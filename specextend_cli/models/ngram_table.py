"""The file of an n-gram table, beside a draft head."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from specextend_cli.arrays import read_arrays
from specextend_cli.errors import ModelError

if TYPE_CHECKING:
    from specextend_cli.engine.drafters.ngram_table import NgramTable

FILE = "ngrams.npz"
_BYTES = 256 << 20  # the most that its arrays may have
_KEPT = 3  # continuations of a context
_LEAST = 5  # times that a context occurred


def has_table(directory: Path | None) -> bool:
    """Whether there is one in a draft's directory."""
    return directory is not None and (directory / FILE).exists()


def load_table(directory: Path, vocabulary: int) -> NgramTable:
    """The table in a draft's directory. ModelError: it is missing or damaged, or has tokens that the target has not."""
    path = directory / FILE
    try:
        return _read(path, path.stat().st_mtime_ns, vocabulary)
    except (OSError, ValueError) as error:
        fix = "copy it again from where the head came from, or remove it"
        raise ModelError(f"{path} holds no n-gram table", why=str(error), fix=fix) from error


@lru_cache(maxsize=1)
def _read(path: Path, changed: int, vocabulary: int) -> NgramTable:
    from specextend_cli.engine.drafters.ngram_table import NgramTable

    found = read_arrays(path, ("keys", "tokens", "counts", "totals"), most=_BYTES)
    keys, totals = found["keys"], found["totals"]
    tokens, counts = (found[name].reshape(len(keys), _KEPT) for name in ("tokens", "counts"))
    if any(array.dtype.kind != "i" for array in found.values()) or tokens.shape != counts.shape:
        raise ValueError("its arrays do not fit each other")
    if len(totals) != len(keys) or tokens.min(initial=0) < 0 or tokens.max(initial=0) >= vocabulary:
        raise ValueError(f"it has tokens beyond the target's {vocabulary:,}, or too few rows")
    shares = counts / (totals[:, None] + 1.0)  # one more: something may follow that never did
    return NgramTable(dict(zip(keys.tolist(), range(len(keys)), strict=True)), tokens.tolist(), shares.tolist())


def table_file(answers: Iterable[tuple[Sequence[int], int]]) -> bytes:
    """The file that counts what followed in `answers`: tokens of prompt and answer, and where the answer begins."""
    from specextend_cli.engine.drafters.ngram_table import CONTEXT, TOKEN_BITS

    windows = [
        np.lib.stride_tricks.sliding_window_view(np.array(tokens[start - CONTEXT :], np.int64), CONTEXT + 1)
        for tokens, start in answers
        if CONTEXT <= start < len(tokens)
    ]
    every = np.concatenate([*windows, np.empty((0, CONTEXT + 1), np.int64)])
    parts: list[tuple[NDArray[np.int64], ...]] = []
    for length in range(1, CONTEXT + 1):
        keys = np.zeros(len(every), np.int64)
        for column in range(CONTEXT - length, CONTEXT):
            keys = keys << TOKEN_BITS | every[:, column] + 1
        parts.append(_counted(keys, every[:, -1]))
    keys, tokens, counts, totals = (np.concatenate(arrays).reshape(-1) for arrays in zip(*parts, strict=True))
    file = BytesIO()
    np.savez_compressed(file, keys=keys, tokens=tokens, counts=counts, totals=totals)
    return file.getvalue()


def _counted(keys: NDArray[np.int64], following: NDArray[np.int64]) -> tuple[NDArray[np.int64], ...]:
    """Keys that occur often, ascending; of each the tokens that follow most often, their counts, and all of them."""
    order = np.lexsort((following, keys))
    pairs, counts = _runs(keys[order], following[order])
    order = np.lexsort((-counts, keys := pairs[0]))
    tokens, counts = pairs[1][order], counts[order]
    (contexts,), sizes = _runs(keys)
    starts = sizes.cumsum() - sizes
    totals = np.add.reduceat(counts, starts) if len(starts) else starts
    places = starts[:, None] + np.arange(_KEPT)
    is_there = np.arange(_KEPT) < sizes[:, None]
    places = np.where(is_there, places, 0)
    often = totals >= _LEAST
    rows = (contexts, np.where(is_there, tokens[places], 0), np.where(is_there, counts[places], 0), totals)
    keys, tokens, counts, totals = (row[often] for row in rows)
    return keys, tokens.astype(np.int32), counts.astype(np.int32), totals.astype(np.int32)


def _runs(*columns: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Sorted rows without repetitions, and how often each occurs."""
    rows = np.stack(columns)
    starts = np.flatnonzero(np.r_[True, (rows[:, 1:] != rows[:, :-1]).any(0)][: rows.shape[1]])
    return rows[:, starts], np.diff(np.r_[starts, rows.shape[1]])
