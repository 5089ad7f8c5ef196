"""One sandbox process for many documents: what costs most, starting Python, is paid once.

The limits on seconds, responses and memory are those of a process of its own, and are checked by the same code.
"""

from __future__ import annotations

import resource
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import pytest

from specextend_cli.documents import cleaning, ocr, sandbox, structured
from specextend_cli.documents.formats import load
from specextend_cli.documents.pdf import read as pdf

_SECONDS = 5.0  # to say that a job is done
_PEAK = 1024 if sys.platform == "linux" else 1  # bytes in the unit of ru_maxrss


def respond(job: Any, requests: Iterator[Any]) -> Iterator[dict[str, Any]]:
    """In the sandbox: do jobs until stdin ends, and after each say so, with the most memory there ever was."""
    while job is not None:
        if isinstance(job, dict):
            sandbox.limit_memory(job["memory"])
            asked = iter(lambda: next(requests, []), [])  # an empty request ends them
            yield from load(job["target"])(job, asked)
            yield {"done": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _PEAK}
        job = next(requests, None)


class SharedWorker:
    """Stands in for `sandbox.sandbox`.

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
        target: str,
        job: Mapping[str, object],
        *,
        first: float,
        following: float = 0.0,
        most: int = sandbox.MAX_RESPONSE,
    ) -> Iterator[sandbox.SandboxProcess]:
        """As `sandbox.sandbox` does."""
        if self._process is None or self._busy or self._jobs == self._lasts:  # busy: with a job that it died of
            self.stopped += self._busy
            self.close()
            self._process = self._stack.enter_context(sandbox.launched(f"{__name__}:respond"))
            self._jobs = 0
        self._jobs += 1
        mine, self._busy, finished = self._process, True, False
        process = sandbox.SandboxProcess(mine, first=first, following=following or _SECONDS, most=most)
        try:
            process.start({**job, "target": target})
            yield process
        finally:
            with suppress(sandbox.SandboxError, ValueError):  # closed: it was busy, and another took its place
                process.send([])  # no more requests, where it still waits for one
                while (response := process.receive()).keys() != {"done"}:
                    pass
                self.peak, finished = max(self.peak, response["done"]), True
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
        for module in (pdf, ocr, structured, cleaning):
            patch.setattr(module, "sandbox", self)
