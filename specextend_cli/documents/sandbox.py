"""A parser in a process of its own: where it hangs, crashes or exceeds its memory, only that process ends.

Both processes exchange JSON lines, never pickles: the responses of a process that parsed an untrusted file are data,
not code. The child runs a target "module:function", a function (job, send), on each job that it is sent, and the
function sends its responses. Dataclasses in them are sent as arrays.
"""

from __future__ import annotations

import gc
import json
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pkgutil import resolve_name
from typing import Any

WORKER = "specextend_cli.documents.worker:respond"  # what reads a file
Send = Callable[[Mapping[str, object]], None]

# The child gets this interpreter's path and not the current directory, which may hold anything.
_CODE = (
    "import sys, json; sys.path[:] = json.loads(sys.argv[1]); "
    "from specextend_cli.documents.sandbox import serve; serve(*sys.argv[2:])"
)
_running: set[subprocess.Popen[bytes]] = set()
begun: dict[str, subprocess.Popen[bytes]] = {}  # for the next `sandbox` of what they serve; they import meanwhile


class SandboxError(Exception):
    """The process died, sent too much, or took too long."""


def send_job(process: subprocess.Popen[bytes], job: Mapping[str, object]) -> None:
    """Send a job; `job["memory"]` is its limit in bytes. That the process is gone is seen by `receive`."""
    assert process.stdin
    with suppress(BrokenPipeError):
        process.stdin.write(json.dumps(job).encode() + b"\n")
        process.stdin.flush()


def receive(process: subprocess.Popen[bytes], seconds: float, most: int) -> dict[str, Any]:
    """The next response, of `most` bytes. SandboxError when the process is gone, or takes longer: then it is ended."""
    assert process.stdout
    watch = threading.Timer(seconds, _end, (process,))
    watch.daemon = True
    watch.start()
    try:
        line = process.stdout.readline(most)
    finally:
        watch.cancel()
    if not line.endswith(b"\n"):
        raise SandboxError
    response: dict[str, Any] = json.loads(line)
    return response


def start(target: str, *ahead: str) -> subprocess.Popen[bytes]:
    """A process that serves `target`, and imports modules `ahead` of the first job."""
    # Warnings of the parsers are discarded: a damaged font can cause thousands. The responses say what failed.
    process = subprocess.Popen(
        [sys.executable, "-c", _CODE, json.dumps(sys.path), target, *ahead],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # a process group, which includes what it starts
    )
    _running.add(process)
    return process


@contextmanager
def sandbox(target: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process that serves `target`; it is killed at the end with everything it started."""
    with begun.pop(target, None) or start(target) as process:
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


def serve(target: str, *ahead: str) -> None:
    """In the child: run `target` on each job from stdin, within its memory, and write the responses to stdout."""
    run, *_ = map(resolve_name, (target, *ahead))
    gc.set_threshold(100_000)  # a page is many small objects, and hardly any of them are cycles
    logging.disable(logging.CRITICAL)
    with os.fdopen(os.dup(1), "w", encoding="ascii") as output:
        os.dup2(2, 1)  # whatever else is printed must not get between the responses

        def send(response: Mapping[str, object]) -> None:
            output.write(as_json(response) + "\n")
            output.flush()

        for line in sys.stdin.buffer:
            job = json.loads(line)
            limit_memory(job["memory"])
            run(job, send)


def as_json(value: object) -> str:
    """The JSON of a value; a dataclass with slots becomes an array of its fields."""
    return json.dumps(value, default=lambda one: [getattr(one, name) for name in one.__slots__])


def limit_memory(memory: int) -> None:
    """Bound the address space of this process in bytes where the system can, and leave no core file."""
    import resource

    for limit, value in ((resource.RLIMIT_AS, memory), (resource.RLIMIT_CORE, 0)):
        with suppress(ValueError, OSError):  # macOS refuses some limits, and a lower hard limit may be in force
            resource.setrlimit(limit, (value, resource.getrlimit(limit)[1]))
