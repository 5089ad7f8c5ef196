"""What is compiled for a pair, once for this machine: kernels, then decoder layers and a draft head around them."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from filelock import FileLock

from specextend_cli.engine.private_files import make_private
from specextend_cli.models.checkpoint import weight_files
from specextend_cli.models.store import cache_root
from specextend_cli.runtime.loading_thread import Stage
from specextend_cli.runtime.threads import are_chosen

if TYPE_CHECKING:
    import torch

    from specextend_cli.engine.cpu.compiled_head import CompiledHead
    from specextend_cli.engine.cpu.compiled_model import CompiledLayers
    from specextend_cli.engine.head import EagleHead
    from specextend_cli.engine.lm import LanguageModel

_WORTH = 20_000_000  # parameters; a smaller model has written its text before the compiler is done
_KERNELS = "compiling kernels, once for this machine"
_LAYERS = "compiling the decoder's layers, once for this machine"
_HEAD = "compiling the draft head, once for this machine"


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
        if not library.is_made:
            yield Stage(_KERNELS)
            with _locked():
                if not library.is_made:
                    library.make()
        library.load()
    except (CannotCompileError, OSError) as error:
        yield Stage(f"without kernels of our own: {error}")


def compiling(lm: LanguageModel, heads: Sequence[EagleHead] = (), *, all_threads: bool = False) -> Iterator[Stage]:
    """Let `lm` and the heads that draft for it run compiled, on processors.

    From then on torch has as many threads as decoding is quickest with (`fit_threads` gives it the others back), unless
    it is to keep `all_threads`.

    What takes long, and what speaks against it, comes as stages. Heads need our own kernels, and go without a word
    where there are none.
    """
    from specextend_cli.engine.native import is_loaded

    if lm.device.type != "cpu" or lm.parts > 1 or sum(weight.numel() for weight in lm.model.parameters()) < _WORTH:
        return
    yield from _or_why("the decoder's layers are not compiled", _layers(lm, all_threads=all_threads))
    for head in heads if is_loaded() else ():
        yield from _or_why("the draft head is not compiled", _head(head))


def _layers(lm: LanguageModel, *, all_threads: bool) -> Iterator[Stage]:
    import torch

    from specextend_cli.engine.cpu.compiled_model import programs_for

    reading = torch.get_num_threads()
    if not all_threads:
        torch.set_num_threads((yield from _decoding_threads(lm)))
    try:
        programs = programs_for(lm, _directory(), prefill_threads=reading)
        yield from _made(_LAYERS, programs)
        programs.use(lm)
    except BaseException:
        torch.set_num_threads(reading)
        raise


def _decoding_threads(lm: LanguageModel) -> Generator[Stage, None, int]:
    """Measured once for this machine; all there are where the user chose them."""
    import torch

    from specextend_cli.engine.cpu.decoding_threads import FEWEST, decoding_threads
    from specextend_cli.engine.cpu.programs import digest
    from specextend_cli.engine.native import is_loaded
    from specextend_cli.engine.native.compiler import processor

    most = torch.get_num_threads()
    if most < 2 * FEWEST or are_chosen():
        return most
    shape = (type(lm.model).__name__, lm.layers, lm.config.hidden_size, str(lm.dtype), is_loaded())
    file = _directory() / f"threads-{digest({'machine': (*processor(), most), 'model': shape})}"
    try:
        known = int(file.read_text())
    except (OSError, ValueError):
        yield Stage("choosing how many threads decode, once for this machine")
        known = decoding_threads(lm)
        make_private(file.parent)
        partial = file.with_name(f"{file.name}.{os.getpid()}")
        partial.write_text(f"{known}")
        partial.replace(file)
    return min(max(known, FEWEST), most)


def _head(head: EagleHead) -> Iterator[Stage]:
    from specextend_cli.engine.cpu.compiled_head import programs_for

    programs = programs_for(head, _directory())
    yield from _made(_HEAD, programs)
    programs.use()


def _or_why(what: str, stages: Iterator[Stage]) -> Iterator[Stage]:
    from specextend_cli.engine.native import CannotCompileError

    try:
        yield from stages
    except (CannotCompileError, OSError) as error:
        yield Stage(f"{what}: {error}")


def _made(name: str, programs: CompiledLayers | CompiledHead) -> Iterator[Stage]:
    if missing := len(programs.missing):
        yield Stage(name, 0, missing)
        with _locked():
            for done, _ in enumerate(programs.make()):
                yield Stage(name, done, missing)


def _directory() -> Path:
    return cache_root() / "programs"


def _locked() -> FileLock:
    """A second process waits, and finds everything made."""
    make_private(_directory())
    return FileLock(_directory() / ".lock")
