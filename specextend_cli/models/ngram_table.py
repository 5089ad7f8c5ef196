"""The file of an n-gram table, beside a draft head."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from specextend_cli.arrays import read_arrays
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
