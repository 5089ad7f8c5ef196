"""One worker process for many documents: what costs most, starting Python, is paid once.

The limits on seconds, answers and memory are those of a worker of its own, and are checked by the same code.
"""

from __future__ import annotations

import resource
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import pytest

from specextend_cli.documents import (
    cleaning,
    cleaning_worker,
    pdf,
    pdf_worker,
    process,
    sandbox_worker,
    structured,
    structured_worker,
)

_START = "from shared_worker import serve; serve()"
_SECONDS = 5.0  # to say that a job is done
_PEAK = 1024 if sys.platform == "linux" else 1  # bytes in the unit of ru_maxrss


def serve() -> None:
    """In the worker: answer jobs until stdin ends, and after each say so, with the most memory there ever was."""
    sandbox_worker.serve(_all)


def _all(job: Any) -> Iterator[dict[str, Any]]:
    while job is not None:
        if isinstance(job, dict):
            sandbox_worker._confine(job["memory"])
            yield from _reader(job).answer(job)
            yield {"done": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _PEAK}
        job = sandbox_worker.heard()


def _reader(job: dict[str, Any]) -> Any:
    return pdf_worker if "reader" in job else cleaning_worker if "form" in job else structured_worker


class SharedWorker:
    """Stands in for `process.worker`.

    `peak`: bytes of memory that the process needed at most; `stopped`: how often it died or had to be killed.
    """

    def __init__(self, lasts: int = 1_000) -> None:
        self._lasts = lasts
        self._stack = ExitStack()
        self._process: Any = None
        self._jobs = 0
        self._busy = False
        self.peak = 0
        self.stopped = 0

    @contextmanager
    def __call__(
        self,
        start: str,
        job: Mapping[str, object],
        *,
        first: float,
        following: float = 0.0,
        most: int = process.MAX_ANSWER,
    ) -> Iterator[process.Conversation]:
        """As `process.worker` does. `start` is left out: the process knows by the job."""
        if self._process is None or self._busy or self._jobs == self._lasts:  # busy: with a job that it died of
            self.stopped += self._busy
            self.close()
            self._process = self._stack.enter_context(process.launched(_START))
            self._jobs = 0
        self._jobs += 1
        mine, self._busy, finished = self._process, True, False
        conversation = process.Conversation(mine, first=first, following=following or _SECONDS, most=most)
        try:
            conversation.tell(job)
            yield conversation
        finally:
            with suppress(process.StoppedError, ValueError):  # closed: it was busy, and another took its place
                conversation.tell([])  # no pages, where it still waits to hear which
                while (answer := next(conversation)).keys() != {"done"}:
                    pass
                self.peak, finished = max(self.peak, answer["done"]), True
            if mine is self._process:
                self._busy = False
                if not finished:
                    self.stopped += 1
                    self.close()

    def close(self) -> None:
        """End the process; the next job starts another."""
        self._stack.close()
        self._process, self._busy = None, False

    def install(self, patch: pytest.MonkeyPatch) -> None:
        """Let the readers and the cleaning use it."""
        patch.setattr(pdf, "worker", self)
        patch.setattr(structured, "worker", self)
        patch.setattr(cleaning, "worker", self)
