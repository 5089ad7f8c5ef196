"""Compiled decoder layers for a loaded target, made once for this machine and its kind of layer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from filelock import FileLock

from specextend_cli.models.store import cache_root
from specextend_cli.summarize.events import Stage

if TYPE_CHECKING:
    from specextend_cli.engine.lm import LanguageModel

_WORTH = 20_000_000  # parameters; a smaller model has written its text before the compiler is done


def compiling(lm: LanguageModel) -> Iterator[Stage]:
    """Let `lm` run compiled layers, on processors; what takes long, and what speaks against it, comes as stages."""
    from specextend_cli.engine.compiled import programs_for
    from specextend_cli.engine.program import CannotCompileError

    if lm.device.type != "cpu" or sum(weight.numel() for weight in lm.model.parameters()) < _WORTH:
        return
    directory = cache_root() / "programs"
    try:
        programs = programs_for(lm, directory)
        if missing := len(programs.missing):
            yield Stage("compiling the decoder's layers, once for this machine", 0, missing)
            directory.mkdir(parents=True, exist_ok=True)
            with FileLock(directory / ".lock"):  # a second process waits, and finds them made
                for done, _ in enumerate(programs.make()):
                    yield Stage("compiling the decoder's layers, once for this machine", done, missing)
        programs.use(lm)
    except (CannotCompileError, OSError) as error:
        yield Stage(f"the decoder's layers are not compiled: {error}")
