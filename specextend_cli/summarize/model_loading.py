"""Loading what writes, as events; where a GPU computes, in a thread beside the reading of a document."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from specextend_cli.models.fast_import import import_transformers
from specextend_cli.models.preset import Preset
from specextend_cli.models.sources import ModelDirectories, fetch_pair, is_present
from specextend_cli.runtime.devices import device_of
from specextend_cli.runtime.graphs import run_by_graphs
from specextend_cli.runtime.loading import describe, heads_of, is_exact
from specextend_cli.runtime.loading_thread import Stage, in_thread, result_of, stages
from specextend_cli.runtime.native import load_library, run_natively
from specextend_cli.runtime.options import DRAFTING, Engine
from specextend_cli.runtime.threads import fit_threads

if TYPE_CHECKING:
    from specextend_cli.summarize.writer import TextGenerator


def load_writer(preset: Preset, engine: Engine, *, batch: int | None) -> Generator[Stage, None, TextGenerator]:
    """Fetch and load both models, check them, and let them run natively or by graphs.

    The sizes of caches and batches come from the preset, the options and the memory that is free, none from a document.
    """
    pair: ModelDirectories = yield from stages(
        lambda progress: fetch_pair(preset, offline=engine.offline, progress=progress)
    )
    yield from prepare(preset.title, pair.target, engine)
    from specextend_cli.summarize.writer import load_generator

    generator = load_generator(preset, pair, engine)
    lm, heads = generator.target.lm, heads_of(generator.drafter)
    if engine.compile:
        yield from run_natively(lm, heads, exact=is_exact(preset, engine))
    drafted = any(getattr(engine, name) is not None for name in DRAFTING)
    generator.batch_size = min(generator.batch_size, batch or (1 if drafted else preset.window.batch))
    generator.keep_exact()
    shape = generator.draft_gate.shape
    yield from run_by_graphs(generator.target, generator.drafter, shape, batch=generator.batch_size)
    if backend := lm.forward_backend:
        generator.batch_size = backend.batch_size(generator.batch_size)
    yield Stage(f"drafts: {describe(generator.drafter)}")
    yield from (Stage(f"the draft head: {remark}") for head in heads for remark in head.remarks)
    return generator


def prepare(title: str, directory: Path, engine: Engine) -> Iterator[Stage]:
    """What loading a model needs: transformers, threads, and the native library."""
    yield Stage(f"loading {title}")
    import_transformers()
    fit_threads()
    if engine.compile:
        yield from load_library(directory, device_of(engine.device))


def import_ahead() -> None:
    """Begin to import transformers in a thread; an error is that of the next import."""
    in_thread(lambda put: import_transformers())


def begin_loading(
    preset: Preset, engine: Engine, load: Callable[[], Generator[Stage, None, TextGenerator]]
) -> Generator[Stage, None, TextGenerator]:
    """`load`, begun in a thread now if nothing has to be fetched and CUDA computes: else when the generator is run.

    Its events, its result and its errors come when the generator is run. Until then the caller computes nothing by
    torch. On processors, which read documents as well, nothing would be gained.
    """

    def begin(put: Callable[[Stage], None]) -> TextGenerator | None:
        if not is_present(preset):
            return None
        put(Stage(f"loading {preset.title}"))
        import_transformers()
        return result_of(load(), put) if device_of(engine.device).type == "cuda" else None

    begun = in_thread(begin)

    def loaded() -> Generator[Stage, None, TextGenerator]:
        generator = yield from begun
        if generator is None:
            return (yield from load())
        fit_threads()  # as the other thread did: each has its own number
        return generator

    return loaded()
