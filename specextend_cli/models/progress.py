"""How long steps report: one callback, bytes or items done of a known total."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

Progress: TypeAlias = Callable[[str, int, int], None]
"""`progress(step, done, total)`, in bytes. `total` is 0 where it is not known. It may be called from a thread."""


def silent(step: str, done: int, total: int) -> None:
    """Report nothing: the default wherever a `Progress` is taken."""


@contextmanager
def watching(
    step: str, measure: Callable[[], int], total: int, progress: Progress, every: float = 0.3
) -> Iterator[None]:
    """Report `measure()` of `total` every few tenths of a second while the body runs, and once when it succeeds.

    For work done by code that we cannot hook: its files are watched as they grow.
    """
    done = threading.Event()

    def watch() -> None:
        while not done.wait(every):
            progress(step, min(measure(), total), total)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()
    progress(step, total, total)
