"""Importing what takes a second while something else is waited for, and calling that off when it is not needed.

A document is read by another process, and torch is a thousand modules. A summary that was written before needs none of
them, and neither does a document that cannot be read: nobody should have to wait for their end.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from importlib.abc import MetaPathFinder
from threading import Thread, current_thread

_threads: list[Thread] = []


@contextmanager
def importing(name: str) -> Iterator[None]:
    """Import the module in the background; what has not come by the end never will.

    Whoever needs it calls `wait` and imports it, and is told what is wrong with it. To be left when the process is
    about to end: half a module cannot be imported again.
    """
    if name in sys.modules:
        yield
        return
    thread = Thread(target=_quietly, args=(name,))
    end = _End(thread)
    thread.start()
    _threads.append(thread)
    try:
        yield
    finally:
        sys.meta_path.insert(0, end)
        thread.join()
        sys.meta_path.remove(end)
        _threads.remove(thread)


def wait() -> None:
    """Until nothing is imported in the background.

    An import alone would wait, too, but where the other one fails, Python 3.11 returns what there is of the module.
    """
    for thread in _threads:
        thread.join()


class _End(MetaPathFinder):
    """No module for one thread."""

    def __init__(self, thread: Thread) -> None:
        self._thread = thread

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        """See `MetaPathFinder`. ImportError."""
        if current_thread() is self._thread:
            raise ImportError(f"{name} is not needed any more")


def _quietly(name: str) -> None:
    with suppress(Exception):
        import_module(name)
