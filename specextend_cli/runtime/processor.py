"""Native code on processors: the library, compiled once where no wheel brought it, and the models that run by it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from filelock import FileLock

from specextend_cli.engine.private_files import make_private
from specextend_cli.models.checkpoint import weight_files
from specextend_cli.models.store import cache_root
from specextend_cli.runtime.loading_thread import Stage

if TYPE_CHECKING:
    import torch

    from specextend_cli.engine.head import EagleHead
    from specextend_cli.engine.lm import LanguageModel

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
    of_heads = [("the draft head", partial(use_natively, head, exact=False)) for head in heads]
    for what, use in [("the model", partial(use_natively, lm, exact=exact)), *of_heads]:
        try:
            use()
        except NotOursError as error:  # noqa: PERF203 - there are a few
            yield Stage(f"{what} runs without native layers: {error}")


def _directory() -> Path:
    return cache_root() / "programs"
