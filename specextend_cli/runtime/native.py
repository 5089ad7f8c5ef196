"""Native code on processors: the library, compiled once where no wheel brought it, and the models that run by it."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from filelock import FileLock

from specextend_cli.engine.private_files import make_private
from specextend_cli.models.checkpoint import weight_files
from specextend_cli.models.store import cache_root, write_whole
from specextend_cli.runtime.devices import are_chosen
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


def run_natively(
    lm: LanguageModel, heads: Sequence[EagleHead] = (), *, exact: bool = True, all_threads: bool = False
) -> Iterator[Stage]:
    """Let `lm` and the heads that draft for it run by the library, if it is loaded.

    From then on torch has as many threads as decoding is quickest with (`fit_threads` gives it the others back), unless
    it is to keep `all_threads`. `exact`: see `native_model.run_natively`. What takes long, and what speaks against it,
    comes as stages.
    """
    from specextend_cli.engine.cpu import native_head, native_model
    from specextend_cli.engine.native import is_loaded

    if lm.device.type != "cpu" or not is_loaded():
        return
    yield from _or_why("the model", lambda: native_model.run_natively(lm, exact=exact))
    if not all_threads:
        yield from _fit_threads(lm)
    for head in heads:
        yield from _or_why("the draft head", partial(native_head.run_natively, head))


def _or_why(what: str, use: Callable[[], None]) -> Iterator[Stage]:
    from specextend_cli.engine.native import CannotCompileError

    try:
        use()
    except CannotCompileError as error:
        yield Stage(f"{what} runs without native layers: {error}")


def _fit_threads(lm: LanguageModel) -> Generator[Stage, None, None]:
    """Decode with as many threads as that is quickest with, measured once for this machine; prefill with all."""
    import torch

    from specextend_cli.engine.cpu.decoding_threads import FEWEST, decoding_threads
    from specextend_cli.engine.native import version
    from specextend_cli.engine.native.shared_library import instructions

    most = torch.get_num_threads()
    if most < 2 * FEWEST or are_chosen():
        return
    shape = f"{type(lm.model).__name__}-{lm.layers}x{lm.config.hidden_size}-{lm.dtype}".replace("torch.", "")
    file = _directory() / f"threads-{shape}-{most}-{instructions()}-{version()[:8]}"
    try:
        known = int(file.read_text())
    except (OSError, ValueError):
        yield Stage("choosing how many threads decode, once for this machine")
        known = decoding_threads(lm)
        make_private(file.parent)
        write_whole(file, f"{known}")
    lm.prefill_threads = most
    torch.set_num_threads(min(max(known, FEWEST), most))


def _directory() -> Path:
    return cache_root() / "programs"
