"""What runs the models: native code on processors, CUDA graphs on GPUs.

The native library is compiled once where no wheel brought it. Graphs are for models that compute the same by them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from filelock import FileLock

from specextend_cli.engine.attention_backends import BACKENDS
from specextend_cli.engine.private_files import make_private
from specextend_cli.models.checkpoint import weight_files
from specextend_cli.models.store import cache_root
from specextend_cli.runtime.loading_thread import Stage

if TYPE_CHECKING:
    import torch

    from specextend_cli.engine.config import TreeShape
    from specextend_cli.engine.drafters import Drafter
    from specextend_cli.engine.head import EagleHead
    from specextend_cli.engine.lm import LanguageModel
    from specextend_cli.engine.target import Target

VARIABLE = "SPECEXTEND_GRAPHS"
_NODES, _WIDTH = 60, 8  # of draft trees; on an H100, 60 nodes cost 1.15 to 1.2 plain steps
_WORTH = 20_000_000  # parameters; a smaller model has written its text before the compiler is done
_COMPILING = "compiling native code, once for this machine"


def load_library(model: Path, device: torch.device) -> Iterator[Stage]:
    """Load the native library on processors, for models loaded from now on; yields what takes long or went wrong."""
    if device.type == "cpu" and sum(file.stat().st_size for file in weight_files(model)) >= 2 * _WORTH:
        yield from make_library()


def make_library() -> Iterator[Stage]:
    """Load the native library into this process, compiled where it has to be; as `load_library`."""
    from specextend_cli.engine.native import CannotCompileError, Library, is_loaded

    if is_loaded():
        return
    try:
        library = Library.within(_directory())
        if library.is_shipped:
            with suppress(CannotCompileError):
                library.load()
                return
            library = Library.within(_directory(), shipped=False)
        if not library.is_made:
            yield Stage(_COMPILING)
            make_private(_directory())
            with FileLock(_directory() / ".lock"):  # a second process waits, and finds everything made
                if not library.is_made:
                    library.make()
        library.load()
    except (CannotCompileError, OSError) as error:
        yield Stage(f"without native code: {error}")


def run_natively(lm: LanguageModel, heads: Sequence[EagleHead] = (), *, exact: bool = True) -> Iterator[Stage]:
    """Let `lm` and the heads that draft for it run by the library, if it is loaded; what speaks against it is yielded.

    `exact`: see `NativeRunner`.
    """
    from specextend_cli.engine.check import NotOursError
    from specextend_cli.engine.native import is_loaded
    from specextend_cli.engine.native_runner import use_natively

    if lm.device.type != "cpu" or not is_loaded():
        return
    models: list[LanguageModel | EagleHead] = [lm, *heads]
    for model in models:
        try:
            use_natively(model, exact=exact and model is lm)
        except NotOursError as error:  # noqa: PERF203 - there are a few
            what = "the model" if model is lm else "the draft head"
            yield Stage(f"{what} runs without native layers: {error}")


def _directory() -> Path:
    return cache_root() / "programs"


def are_wanted() -> bool:
    """Whether the user leaves graphs on."""
    return os.environ.get(VARIABLE, "").lower() not in ("0", "false", "no", "off")


def tree_for(lm: LanguageModel, shape: TreeShape) -> TreeShape:
    """The bounds of trees that are verified by `lm`: larger ones than the preset's where it runs by CUDA graphs.

    Up to where the gate finds that nodes cost more than they bring, or graphs have no more rows. Without graphs,
    recurrent layers take chains; native layers as many nodes as pay.
    """
    if (rows := lm.runner.exact_rows) is not None:
        return replace(shape, nodes=min(shape.nodes, rows))
    if lm.state_bytes and not _may_take_graphs(lm):
        return replace(shape, width=1)
    if not _may_take_graphs(lm) or lm.state_bytes or len(lm.layers_with_keys) < lm.layers:
        return shape
    from specextend_cli.engine.attention.triton_tree import WORD
    from specextend_cli.engine.cuda.body import MOST_SLOTS

    width = min(_WIDTH, MOST_SLOTS // (shape.depth + 1))  # or a draft would be no graph
    nodes = min(max(shape.nodes, _NODES), WORD)  # a word has as many bits as the largest graph has rows
    return replace(shape, nodes=nodes, width=max(shape.width, width))


def _may_take_graphs(lm: LanguageModel) -> bool:
    return lm.device.type == "cuda" and BACKENDS[lm.attention].graphed and are_wanted()


def run_by_graphs(target: Target, drafter: Drafter, shape: TreeShape, *, batch: int = 1) -> Iterator[Stage]:
    """Let the target and the models that draft for it replay CUDA graphs, if they compute the same by them.

    All are captured now: for trees and whole drafts of `shape`, and batches of up to `batch` sequences. Yields what
    takes long and what speaks against it.
    """
    lm = target.lm
    for name, why in lm.refused.items():
        yield Stage(f"attention by {lm.attention} instead of {name}: {_first_line(why)}")
    if not _may_take_graphs(lm):
        return
    yield Stage("preparing the GPU")
    from specextend_cli.engine.cuda.graph_check import use_checked_graphs

    for what, why in use_checked_graphs(target, drafter, shape, batch=batch).items():
        yield Stage(f"{what}: {_first_line(why)}")


def _first_line(why: str) -> str:
    return (why.strip().splitlines() or [""])[0][:200]
