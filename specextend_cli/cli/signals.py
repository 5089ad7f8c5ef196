"""Signals: the first ^C stops cleanly, the second at once; SIGTERM and `--timeout` unwind the stack."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from specextend_cli.errors import Exit, SpecextendError

FOREVER = 1e8  # seconds; a timer takes no infinity
SHOW_CURSOR = b"\x1b[?25h"


class DeadlineError(SpecextendError):
    """The time of `--timeout` is over."""

    exit = Exit.TIMEOUT


class Terminated(SystemExit):
    """Raised on SIGTERM; unwinds the stack as an exit does."""


@contextmanager
def handled() -> Iterator[None]:
    """Handle SIGINT and SIGTERM as described above while the body runs."""
    interrupt = signal.signal(signal.SIGINT, _first)
    terminate = signal.signal(signal.SIGTERM, _terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, interrupt)
        signal.signal(signal.SIGTERM, terminate)


def interrupted() -> bool:
    """Whether ^C was pressed while signals are handled."""
    return signal.getsignal(signal.SIGINT) is _second


@contextmanager
def deadline(seconds: float | None) -> Iterator[None]:
    """Raise DeadlineError in the body when `seconds` have passed; None: never."""
    if seconds is None:
        yield
        return

    def expire(number: int, frame: FrameType | None) -> None:
        raise DeadlineError(f"stopped after {seconds:g} s", why="--timeout is over", fix="allow more time")

    before = signal.signal(signal.SIGALRM, expire)
    signal.setitimer(signal.ITIMER_REAL, min(seconds, FOREVER))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _first(number: int, frame: FrameType | None) -> None:
    signal.signal(signal.SIGINT, _second)
    raise KeyboardInterrupt


def _second(number: int, frame: FrameType | None) -> None:
    # Stop at once: no unwinding, no locks, no buffers.
    if sys.stderr.isatty():
        os.write(sys.stderr.fileno(), SHOW_CURSOR + b"\n")
    os._exit(Exit.SIGINT)


def _terminate(number: int, frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise Terminated(int(Exit.SIGTERM))
