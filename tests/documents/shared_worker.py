"""One sandbox process for many documents: what costs most, starting Python, is paid once.

The limits on seconds, responses and memory are those of a process of its own, and are checked by the same code.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from specextend_cli.documents import read, sandbox


class _Process(sandbox.SandboxProcess):
    """Knows whether its last response ended its job."""

    is_done = False

    def receive(self, seconds: float) -> dict[str, Any]:
        response = super().receive(seconds)
        self.is_done = not response.keys() & {"page", "characters"}
        return response


class SharedWorker:
    """Stands in for `sandbox.sandbox`; `stopped`: how often a process died or had to be killed."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._process: Any = None
        self.stopped = 0

    @contextmanager
    def __call__(self, target: str, job: Mapping[str, object], *, most: int) -> Iterator[sandbox.SandboxProcess]:
        """As `sandbox.sandbox` does."""
        if self._process is None:
            self._process = self._stack.enter_context(sandbox.launched(target))
        process = _Process(self._process, most)
        process.send(job)
        try:
            yield process
        finally:
            self.used(self._process.pid)
            if not process.is_done:
                self.stopped += 1
                self.close()

    def used(self, pid: int) -> None:
        """A job of this process is done or has failed."""

    def close(self) -> None:
        """End the process; the next job starts another."""
        self._stack.close()
        self._process = None

    def install(self, patch: pytest.MonkeyPatch) -> None:
        """Let the reader use it."""
        patch.setattr(read, "sandbox", self)
