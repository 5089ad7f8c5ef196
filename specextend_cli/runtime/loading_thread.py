"""Progress from a blocking call: it runs in a thread, and its callbacks come out as events."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from concurrent.futures import Future
from dataclasses import dataclass
from queue import Queue
from typing import TypeVar

from specextend_cli.models.store import Progress

E = TypeVar("E")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Stage:
    """A long step of preparation: `done` of `total` (`unit` "bytes", "pages", ...; total 0: not known)."""

    name: str
    done: float = 0
    total: float = 0
    unit: str = ""


def stages(work: Callable[[Progress], T]) -> Generator[Stage, None, T]:
    """Yield a Stage for each report of `work(progress)`; returns its result, or raises what it raised."""
    queue: Queue[Stage | None] = Queue()
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(work(lambda step, done, total: queue.put(Stage(step, done, total, "bytes"))))
        except BaseException as error:  # handed to the caller's thread, which raises it
            future.set_exception(error)
        finally:
            queue.put(None)

    threading.Thread(target=run, daemon=True).start()
    while (stage := queue.get()) is not None:
        yield stage
    return future.result()


def result_of(events: Generator[E, None, T], each: Callable[[E], object] = lambda event: None) -> T:
    """What the generator returns; its events go to `each`."""
    try:
        while True:
            each(next(events))
    except StopIteration as ended:
        result: T = ended.value
        return result
