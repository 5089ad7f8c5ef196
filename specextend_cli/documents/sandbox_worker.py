"""The worker's side of `process.py`: limits on itself, JSON lines from stdin, JSON lines to stdout.

JSON, not pickles: the answers of a process that parsed an untrusted file are data, never code.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any


def serve(answer: Callable[[Any], Iterable[dict[str, Any]]]) -> None:
    """Answer the one job on stdin; `job["memory"]` bounds this process's address space, in bytes."""
    job = heard()
    _confine(job["memory"])
    logging.disable(logging.CRITICAL)
    with os.fdopen(os.dup(1), "w", encoding="ascii") as output:
        os.dup2(2, 1)  # whatever else prints must not end up between the answers
        for found in answer(job):
            output.write(json.dumps(found) + "\n")
            output.flush()


def heard() -> Any:
    """The next line of stdin; None after the last."""
    line = sys.stdin.buffer.readline()
    return json.loads(line) if line else None


def _confine(memory: int) -> None:
    """Bound the address space where the system can, and leave no core file."""
    import resource

    for limit, value in ((resource.RLIMIT_AS, memory), (resource.RLIMIT_CORE, 0)):
        with suppress(ValueError, OSError):  # macOS refuses some limits, and a lower hard one may stand: both are fine
            resource.setrlimit(limit, (value, resource.getrlimit(limit)[1]))
