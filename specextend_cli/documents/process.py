"""A parser in a process of its own: what hangs, crashes or eats memory there is stopped, and the program goes on.

A worker is a module whose `serve()` is `confined.serve`. It reads one JSON job from stdin and answers in JSON lines.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

MAX_ANSWER = 64 << 20

# The worker sees this interpreter's path and nothing of the current directory, which may hold anything.
_PATH = "import sys, json; sys.path[:] = json.loads(sys.argv[1])\n"


class StoppedError(Exception):
    """The worker died, answered too much, or took too long."""


@contextmanager
def worker(
    start: str, job: Mapping[str, object], *, first: float, following: float = 0.0
) -> Iterator[Iterator[dict[str, Any]]]:
    """Run the statements `start` in another process on `job`; gives its answers, which raise `StoppedError`.

    The first answer may take `first` seconds and each later one `following`.
    """
    command = [sys.executable, "-c", _PATH + start, json.dumps(sys.path)]
    # Warnings of the parsers go nowhere: a damaged font can write thousands of lines. The answers say what failed.
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        try:
            yield _answers(process, json.dumps(job).encode() + b"\n", first, following)
        finally:
            process.kill()


def _answers(process: subprocess.Popen[bytes], job: bytes, first: float, following: float) -> Iterator[dict[str, Any]]:
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(job)
        process.stdin.flush()
    except BrokenPipeError:
        raise StoppedError from None
    pipe, buffer = process.stdout.fileno(), bytearray()
    deadline = time.monotonic() + first
    while True:
        searched = 0
        while (end := buffer.find(b"\n", searched)) < 0:
            searched = len(buffer)
            ready, _, _ = select.select([pipe], [], [], max(deadline - time.monotonic(), 0))
            part = os.read(pipe, 1 << 20) if ready else b""
            if not part or len(buffer) > MAX_ANSWER:
                raise StoppedError
            buffer += part
        line = bytes(buffer[:end])
        del buffer[: end + 1]
        yield json.loads(line)
        deadline = time.monotonic() + following
