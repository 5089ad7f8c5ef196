"""One sandbox process for many documents: what costs most, starting Python, is paid once.

The limits on seconds, responses and memory are those of a process of its own, and are checked by the same code.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from specextend_cli.documents import read, sandbox
from specextend_cli.errors import SpecextendError


class SharedWorker:
    """Stands in for `sandbox.sandbox`; `stopped`: how often a process died or had to be killed."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._process: Any = None
        self.stopped = 0

    @contextmanager
    def __call__(self, target: str) -> Iterator[subprocess.Popen[bytes]]:
        """As `sandbox.sandbox` does."""
        if self._process is None:
            self._process = self._stack.enter_context(sandbox.sandbox(target))
        try:
            yield self._process
        except SpecextendError:  # its last response
            self.used(self._process.pid)
            raise
        except BaseException:
            self.used(self._process.pid)
            self.stopped += 1
            self.close()
            raise
        self.used(self._process.pid)

    def used(self, pid: int) -> None:
        """A job of this process is done or has failed."""

    def close(self) -> None:
        """End the process; the next job starts another."""
        self._stack.close()
        self._process = None

    def install(self, patch: pytest.MonkeyPatch) -> None:
        """Let the reader use it."""
        patch.setattr(read, "sandbox", self)
