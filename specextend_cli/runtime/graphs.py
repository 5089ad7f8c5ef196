"""CUDA graphs on GPUs, for models that compute the same by them as without."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from specextend_cli.engine.attention_backends import BACKENDS
from specextend_cli.runtime.loading_thread import Stage

if TYPE_CHECKING:
    from specextend_cli.engine.config import TreeShape
    from specextend_cli.engine.drafters import Drafter
    from specextend_cli.engine.target import Target

VARIABLE = "SPECEXTEND_GRAPHS"


def are_wanted() -> bool:
    """Whether the user leaves graphs on."""
    return os.environ.get(VARIABLE, "").lower() not in ("0", "false", "no", "off")


def run_by_graphs(target: Target, drafter: Drafter, shape: TreeShape, *, batch: int = 1) -> Iterator[Stage]:
    """Let the target and the models that draft for it replay CUDA graphs, if they compute the same by them.

    All are captured now: for trees and whole drafts of `shape`, and batches of up to `batch` sequences. Yields what
    takes long and what speaks against it.
    """
    lm = target.lm
    for name, why in lm.refused.items():
        yield Stage(f"attention by {lm.attention} instead of {name}: {_first_line(why)}")
    if lm.device.type != "cuda" or lm.parts > 1 or not BACKENDS[lm.attention].graphed or not are_wanted():
        return
    yield Stage("preparing the GPU")
    from specextend_cli.engine.cuda.graph_check import use_checked_graphs

    for what, why in use_checked_graphs(target, drafter, shape, batch=batch).items():
        yield Stage(f"{what}: {_first_line(why)}")


def _first_line(why: str) -> str:
    return (why.strip().splitlines() or [""])[0][:200]
