"""A parser in a process of its own: what hangs, crashes or eats memory there is stopped, and the program goes on.

A worker is a module whose `serve()` is `confined.serve`. It reads JSON lines from stdin, a job first, and
answers in JSON lines.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

MAX_ANSWER = 64 << 20

# The worker sees this interpreter's path and nothing of the current directory, which may hold anything.
_PATH = "import sys, json; sys.path[:] = json.loads(sys.argv[1])\n"


class StoppedError(Exception):
    """The worker died, answered too much, or took too long."""


class Conversation:
    """With a worker: what it is told, and its answers in order; `StoppedError` when it is gone or too slow.

    The first answer may take `first` seconds and each later one `following`; none may have more than `most` bytes.
    """

    def __init__(
        self, process: subprocess.Popen[bytes], *, first: float, following: float = 0.0, most: int = MAX_ANSWER
    ) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._stdin, self._pipe = process.stdin, process.stdout.fileno()
        self._buffer = bytearray()
        self._seconds, self._following, self._most = first, following, most

    def tell(self, message: object) -> None:
        """Send one line of JSON."""
        try:
            self._stdin.write(json.dumps(message).encode() + b"\n")
            self._stdin.flush()
        except BrokenPipeError:
            raise StoppedError from None

    def __iter__(self) -> Conversation:
        return self

    def __next__(self) -> dict[str, Any]:
        deadline = time.monotonic() + self._seconds
        searched = 0
        while (end := self._buffer.find(b"\n", searched)) < 0:
            searched = len(self._buffer)
            ready, _, _ = select.select([self._pipe], [], [], max(deadline - time.monotonic(), 0))
            part = os.read(self._pipe, 1 << 20) if ready else b""
            if not part or len(self._buffer) > self._most:
                raise StoppedError
            self._buffer += part
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        self._seconds = self._following
        answer: dict[str, Any] = json.loads(line)
        return answer


@contextmanager
def worker(
    start: str, job: Mapping[str, object], *, first: float, following: float = 0.0, most: int = MAX_ANSWER
) -> Iterator[Conversation]:
    """Run the statements `start` in another process on `job`; see `Conversation` for the limits."""
    with launched(start) as process:
        conversation = Conversation(process, first=first, following=following, most=most)
        conversation.tell(job)
        yield conversation


@contextmanager
def launched(start: str) -> Iterator[subprocess.Popen[bytes]]:
    """Another process that runs the statements `start`, killed at the end."""
    command = [sys.executable, "-c", _PATH + start, json.dumps(sys.path)]
    # Warnings of the parsers go nowhere: a damaged font can write thousands of lines. The answers say what failed.
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # so that what it starts itself (an OCR program) ends with it
    ) as process:
        try:
            yield process
        finally:
            with suppress(ProcessLookupError, PermissionError):  # it is gone, with all it started
                os.killpg(process.pid, signal.SIGKILL)
