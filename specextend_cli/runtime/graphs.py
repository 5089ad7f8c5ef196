"""CUDA graphs on GPUs, for models that compute the same by them as without."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from specextend_cli.runtime.loading_thread import Stage

if TYPE_CHECKING:
    from specextend_cli.engine.head import EagleHead
    from specextend_cli.engine.lm import LanguageModel

VARIABLE = "SPECEXTEND_GRAPHS"


def are_wanted() -> bool:
    """Whether the user leaves graphs on."""
    return os.environ.get(VARIABLE, "").lower() not in ("0", "false", "no", "off")


def run_by_graphs(lm: LanguageModel, heads: Sequence[EagleHead] = ()) -> Iterator[Stage]:
    """Let `lm` and its heads replay CUDA graphs, if they compute the same by them; yields what speaks against it."""
    for name, why in lm.refused.items():
        yield Stage(f"attention by {lm.attention} instead of {name}: {_first_line(why)}")
    if lm.device.type != "cuda" or lm.parts > 1 or lm.attention != "triton" or not are_wanted():
        return
    from specextend_cli.engine.cuda.graph_check import use_checked_graphs

    for what, why in use_checked_graphs(lm, heads).items():
        yield Stage(f"{what} runs without CUDA graphs: {_first_line(why)}")


def _first_line(why: str) -> str:
    return (why.strip().splitlines() or [""])[0][:200]
