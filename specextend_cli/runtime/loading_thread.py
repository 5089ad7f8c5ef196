"""Work in a thread, whose progress comes out as events: a blocking call, or loading beside something else."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from concurrent.futures import Future
from dataclasses import dataclass
from queue import Queue
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from specextend_cli.models.store import Progress

E = TypeVar("E")
T = TypeVar("T")

_NAME = "loading"


@dataclass(frozen=True, slots=True)
class Stage:
    """A long step of preparation: `done` of `total` (`unit` "bytes", "pages", ...; total 0: not known)."""

    name: str
    done: float = 0
    total: float = 0
    unit: str = ""


def in_thread(work: Callable[[Callable[[E], None]], T]) -> Generator[E, None, T]:
    """Begin `work(put)` in a thread, now.

    The generator yields what was and is `put`, and returns the work's result or raises what it raised. Nobody has to
    run it: the thread is a daemon.
    """
    queue: Queue[tuple[E] | None] = Queue()
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(work(lambda event: queue.put((event,))))
        except BaseException as error:  # handed to the caller's thread, which raises it
            future.set_exception(error)
        finally:
            queue.put(None)

    def events() -> Generator[E, None, T]:
        while (event := queue.get()) is not None:
            yield event[0]
        return future.result()

    threading.Thread(target=run, name=_NAME, daemon=True).start()
    return events()


def is_busy() -> bool:
    """Whether work of `in_thread` is under way. Python must not be shut down then: native code would abort it."""
    return any(thread.name == _NAME for thread in threading.enumerate())


def stages(work: Callable[[Progress], T]) -> Generator[Stage, None, T]:
    """As `in_thread`, for work that reports to a `Progress`: each report is a Stage."""
    return in_thread(lambda put: work(lambda step, done, total: put(Stage(step, done, total, "bytes"))))


def result_of(events: Generator[E, None, T], each: Callable[[E], object] = lambda event: None) -> T:
    """What the generator returns; its events go to `each`."""
    try:
        while True:
            each(next(events))
    except StopIteration as ended:
        result: T = ended.value
        return result
