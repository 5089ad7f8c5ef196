"""What is compiled for a target, once for this machine: kernels, and then its decoder layers around them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from filelock import FileLock

from specextend_cli.models.store import cache_root
from specextend_cli.models.weights import weight_files
from specextend_cli.summarize.events import Stage

if TYPE_CHECKING:
    import torch

    from specextend_cli.engine.lm import LanguageModel

_WORTH = 20_000_000  # parameters; a smaller model has written its text before the compiler is done
_KERNELS = "compiling kernels, once for this machine"
_LAYERS = "compiling the decoder's layers, once for this machine"


def kernels(model: Path, device: torch.device) -> Iterator[Stage]:
    """Let models that are loaded from now on use our own kernels; `model` is the target's directory.

    Only on processors; what takes long, and what went wrong, comes as stages. Those with other instructions than the
    kernels are written in go without a word. Once loaded, they serve every model of the process.
    """
    from specextend_cli.engine.native import CannotCompileError, Library, is_loaded

    if device.type != "cpu" or is_loaded() or sum(file.stat().st_size for file in weight_files(model)) < 2 * _WORTH:
        return
    try:
        library = Library.within(_directory())
    except CannotCompileError:
        return
    try:
        if not library.file.exists():
            yield Stage(_KERNELS)
            with _locked():
                if not library.file.exists():
                    library.make()
        library.load()
    except (CannotCompileError, OSError) as error:
        yield Stage(f"without kernels of our own: {error}")


def compiling(lm: LanguageModel) -> Iterator[Stage]:
    """Let `lm` run compiled layers, on processors; what takes long, and what speaks against it, comes as stages."""
    from specextend_cli.engine.compiled import programs_for
    from specextend_cli.engine.native import CannotCompileError

    if lm.device.type != "cpu" or sum(weight.numel() for weight in lm.model.parameters()) < _WORTH:
        return
    try:
        programs = programs_for(lm, _directory())
        if missing := len(programs.missing):
            yield Stage(_LAYERS, 0, missing)
            with _locked():
                for done, _ in enumerate(programs.make()):
                    yield Stage(_LAYERS, done, missing)
        programs.use(lm)
    except (CannotCompileError, OSError) as error:
        yield Stage(f"the decoder's layers are not compiled: {error}")


def _directory() -> Path:
    return cache_root() / "programs"


def _locked() -> FileLock:
    """A second process waits, and finds everything made."""
    _directory().mkdir(parents=True, exist_ok=True)
    return FileLock(_directory() / ".lock")
