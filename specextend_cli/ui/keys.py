"""Keys pressed while the panel is shown are not printed into it: they would move the cursor, and rows stay behind."""

from __future__ import annotations

import contextlib
import os
import termios
from typing import Any, TextIO

LOCAL_FLAGS = 3
_before: dict[int, list[Any]] = {}


def hush(stream: TextIO) -> None:
    """Stop the terminal from echoing, until `restore`.

    A process in the background leaves its terminal alone: changing it would stop the process.
    """
    with contextlib.suppress(OSError, termios.error):
        descriptor = stream.fileno()
        attributes = termios.tcgetattr(descriptor)
        if os.tcgetpgrp(descriptor) != os.getpgrp():
            return
        _before[descriptor] = list(attributes)
        attributes[LOCAL_FLAGS] &= ~termios.ECHO
        termios.tcsetattr(descriptor, termios.TCSANOW, attributes)


def hushed() -> list[int]:
    """Descriptors of the terminals that do not echo now: those that a panel is drawn on."""
    return list(_before)


def restore() -> None:
    """Give the terminal its echo back. Safe to call at any time, from a signal handler too."""
    while _before:
        descriptor, attributes = _before.popitem()
        with contextlib.suppress(OSError, termios.error):
            termios.tcsetattr(descriptor, termios.TCSANOW, attributes)
