"""One sandbox process for many documents: what costs most, starting Python, is paid once.

The limits on seconds, responses and memory are those of a process of its own, and are checked by the same code.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
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
    """Stands in for `sandbox.sandbox`.

    `peak`: bytes of memory that a process needed at most; `stopped`: how often it died or had to be killed.
    """

    def __init__(self, lasts: int = 1_000) -> None:
        self._lasts = lasts
        self._stack = ExitStack()
        self._process: Any = None
        self._jobs = 0
        self.peak = 0
        self.stopped = 0

    @contextmanager
    def __call__(self, target: str, job: Mapping[str, object], *, most: int) -> Iterator[sandbox.SandboxProcess]:
        """As `sandbox.sandbox` does."""
        if self._process is None or self._jobs == self._lasts:
            self.close()
            self._process = self._stack.enter_context(sandbox.launched(target))
            self._jobs = 0
        self._jobs += 1
        process = _Process(self._process, most)
        process.send(job)
        try:
            yield process
        finally:
            status = Path(f"/proc/{self._process.pid}/status")
            if status.exists():
                lines = [line for line in status.read_text().splitlines() if line.startswith("VmHWM:")]
                self.peak = max(self.peak, *(int(line.split()[1]) << 10 for line in lines), 0)
            if not process.is_done:
                self.stopped += 1
                self.close()

    def close(self) -> None:
        """End the process; the next job starts another."""
        self._stack.close()
        self._process = None

    def install(self, patch: pytest.MonkeyPatch) -> None:
        """Let the reader use it."""
        patch.setattr(read, "sandbox", self)
