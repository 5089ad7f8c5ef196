"""A parser in a process of its own: where it hangs, crashes or exceeds its memory, only that process ends.

Both processes exchange JSON lines, never pickles: the responses of a process that parsed an untrusted file are data,
not code. The child runs a target "module:function", a function (job, requests) -> responses: `job` is the first line
it is sent, `requests` iterates over the further ones, and it yields its responses. Dataclasses in
them are sent as arrays.
"""

from __future__ import annotations

import json
import logging
import os
import select
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any, TypeVar

from specextend_cli.documents.formats import load

MAX_RESPONSE = 64 << 20
DIED = "took too long, or too much memory"
GIVEN_UP = "given up after too many failures"

Page = TypeVar("Page")
Target = Callable[[Any, Iterator[Any]], Iterable[dict[str, Any]]]

# The child gets this interpreter's path and not the current directory, which may hold anything.
_CODE = (
    "import sys, json; sys.path[:] = json.loads(sys.argv[1]); "
    "from specextend_cli.documents.sandbox import serve; serve(sys.argv[2])"
)


_running: set[subprocess.Popen[bytes]] = set()


class SandboxError(Exception):
    """The process died, sent too much, or took too long."""


class SandboxProcess:
    """The parent's side: requests to the process, its responses in order; SandboxError when it is gone or too slow.

    The first response, `head`, may take `first` seconds and each later one `following`; none may have more than `most`
    bytes.
    """

    def __init__(self, process: subprocess.Popen[bytes], *, first: float, following: float, most: int) -> None:
        assert process.stdin
        assert process.stdout
        self._stdin, self._stdout = process.stdin, process.stdout.fileno()
        self._buffer = bytearray()
        self._seconds, self._following, self._most = first, following, most
        self.head: dict[str, Any] = {}

    def start(self, job: Mapping[str, object]) -> None:
        """Send the job, and keep the first response as `head`."""
        self.send(job)
        self.head = self.receive()

    def send(self, request: object) -> None:
        """Send one line of JSON."""
        try:
            self._stdin.write(json.dumps(request).encode() + b"\n")
            self._stdin.flush()
        except BrokenPipeError:
            raise SandboxError from None

    def receive(self) -> dict[str, Any]:
        """The next response."""
        deadline = time.monotonic() + self._seconds
        searched = 0
        while (end := self._buffer.find(b"\n", searched)) < 0:
            searched = len(self._buffer)
            ready, _, _ = select.select([self._stdout], [], [], max(deadline - time.monotonic(), 0))
            part = os.read(self._stdout, 1 << 20) if ready else b""
            if not part or len(self._buffer) > self._most:
                raise SandboxError
            self._buffer += part
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        self._seconds = self._following
        response: dict[str, Any] = json.loads(line)
        return response


@contextmanager
def sandbox(
    target: str, job: Mapping[str, object], *, first: float, following: float = 0.0, most: int = MAX_RESPONSE
) -> Iterator[SandboxProcess]:
    """Run `target` on `job` in another process; see `SandboxProcess` for the limits. `job["memory"]` is in bytes."""
    with launched(target) as popen:
        process = SandboxProcess(popen, first=first, following=following, most=most)
        process.start(job)
        yield process


def page_responses(
    processes: Iterable[AbstractContextManager[SandboxProcess]], pages: Iterable[Page]
) -> Generator[tuple[Page, dict[str, Any]], None, None]:
    """The response about each of `pages`, in their order. The next process goes on where one dies.

    The page on which it died has an error; so have the pages that are left when there are no more processes.
    """
    todo = deque(pages)
    for started in processes:
        with suppress(SandboxError), started as process:
            if "error" in process.head:
                raise SandboxError
            process.send(list(todo))
            while todo:
                response = process.receive()
                yield todo.popleft(), response
        if not todo:
            return
        yield todo.popleft(), {"error": DIED}
    for page in todo:
        yield page, {"error": GIVEN_UP}


@contextmanager
def launched(target: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process that serves `target`; it is killed at the end with everything it started."""
    # Warnings of the parsers are discarded: a damaged font can cause thousands. The responses say what failed.
    with subprocess.Popen(
        [sys.executable, "-c", _CODE, json.dumps(sys.path), target],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # a process group, which includes an OCR program it starts
    ) as process:
        _running.add(process)
        try:
            yield process
        finally:
            _end(process)
            _running.discard(process)


def end_all() -> None:
    """End the processes of all threads, for a program that ends without them."""
    for process in tuple(_running):
        _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError, PermissionError):  # it has already ended
        os.killpg(process.pid, signal.SIGKILL)


def serve(target: str) -> None:
    """In the child: run `target` on the job from stdin, within its memory, and write the responses to stdout."""
    respond: Target = load(target)
    requests = (json.loads(line) for line in sys.stdin.buffer)
    job = next(requests)
    limit_memory(job["memory"])
    logging.disable(logging.CRITICAL)
    with os.fdopen(os.dup(1), "w", encoding="ascii") as output:
        os.dup2(2, 1)  # whatever else is printed must not get between the responses
        for response in respond(job, requests):
            # A dataclass with slots becomes an array of its fields.
            fields = json.dumps(response, default=lambda value: [getattr(value, name) for name in value.__slots__])
            output.write(fields + "\n")
            output.flush()


def limit_memory(memory: int) -> None:
    """Bound the address space of this process in bytes where the system can, and leave no core file."""
    import resource

    for limit, value in ((resource.RLIMIT_AS, memory), (resource.RLIMIT_CORE, 0)):
        with suppress(ValueError, OSError):  # macOS refuses some limits, and a lower hard limit may be in force
            resource.setrlimit(limit, (value, resource.getrlimit(limit)[1]))
