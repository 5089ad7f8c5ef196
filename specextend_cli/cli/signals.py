"""Signals: the first ^C stops cleanly, the second at once; SIGTERM unwinds the stack."""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType
from typing import TYPE_CHECKING

from specextend_cli.errors import Exit

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

SHOW_CURSOR = b"\x1b[?25h"
_SHORTLY = 0.01  # seconds


class Terminated(SystemExit):
    """Raised on SIGTERM; unwinds the stack as an exit does."""


def handle() -> None:
    """From now on, handle SIGINT and SIGTERM as described above."""
    signal.signal(signal.SIGINT, _first)
    signal.signal(signal.SIGTERM, _terminate)
    sys.unraisablehook = _raise_again


def interrupted() -> bool:
    """Whether ^C was pressed since `handle`."""
    return signal.getsignal(signal.SIGINT) is _second


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


def _raise_again(unraisable: UnraisableHookArgs) -> None:
    """Raise ^C or SIGTERM again, shortly afterwards, where it met a destructor or a callback, which cannot raise it.

    Imports call many of them: Python would print "Exception ignored in" and go on.
    """
    handler = {KeyboardInterrupt: _first, Terminated: _terminate}.get(unraisable.exc_type)
    if handler is None:
        sys.__unraisablehook__(unraisable)
    else:
        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, _SHORTLY)
