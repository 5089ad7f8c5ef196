"""Keeps a terminal clean while a panel is drawn on it: keys are not echoed, and others' stderr goes through a pipe.

Libraries warn and native code logs to descriptor 2 in the middle of a frame, and half of the frame stays behind. While
the panel is shown, descriptor 2 is a pipe whose lines appear above the panel or, once the result is being written
there, after it. The panel itself is drawn through a descriptor of its own.
"""

from __future__ import annotations

import contextlib
import os
import sys
import termios
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, TextIO

from specextend_cli.ui.standard_streams import STDERR, forgiving

if TYPE_CHECKING:
    from specextend_cli.ui.streams import Output

MAX_BYTES = 500  # bytes of a line that are kept
MAX_LINES = 40  # lines that are shown: a library may log one for every token
_END = b"\x00specextend: all of it\x00"
_LOCAL_FLAGS = 3
_before: dict[int, list[Any]] = {}


def disable_echo(stream: TextIO) -> None:
    """Stop the terminal from printing pressed keys, until `restore_echo`; not in the background: it would stop us."""
    with contextlib.suppress(OSError, termios.error):
        descriptor = stream.fileno()
        attributes = termios.tcgetattr(descriptor)
        if os.tcgetpgrp(descriptor) != os.getpgrp():
            return
        _before[descriptor] = list(attributes)
        attributes[_LOCAL_FLAGS] &= ~termios.ECHO
        termios.tcsetattr(descriptor, termios.TCSANOW, attributes)


def without_echo() -> list[int]:
    """Descriptors of the terminals whose echo is off: those on which a panel is drawn."""
    return list(_before)


def restore_echo() -> None:
    """Turn the echo on again. Safe to call at any time, also from a signal handler."""
    while _before:
        descriptor, attributes = _before.popitem()
        with contextlib.suppress(OSError, termios.error):
            termios.tcsetattr(descriptor, termios.TCSANOW, attributes)


@contextmanager
def clean_terminal(output: Output, show: Callable[[str], None]) -> Iterator[None]:
    """While the body draws on stderr, echo no keys, and hand each line that others write there to `show`."""
    with captured_stderr(output, show):
        disable_echo(output.stderr)
        try:
            yield
        finally:
            restore_echo()


@contextmanager
def captured_stderr(output: Output, show: Callable[[str], None]) -> Iterator[None]:
    """Hand each line that others write to our stderr to `show`, in another thread, while the body runs."""
    if not _is_ours(output):
        yield
        return
    sys.stderr.flush()
    before, terminal = output.stderr, os.dup(STDERR)
    output.draw_on(forgiving(terminal, before.encoding, before.errors or "strict"))
    _Pipe().open(_bounded(show))
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(terminal, STDERR)
        _Pipe().close()
        output.draw_on(before)
        os.close(terminal)


def _is_ours(output: Output) -> bool:
    try:
        return output.stderr.fileno() == STDERR
    except (OSError, ValueError):
        return False


@cache
class _Pipe:
    """One per process: a child process started under a panel may write to it long after the panel is gone."""

    def __init__(self) -> None:
        self._reader, self._writer = os.pipe()
        self._show: Callable[[str], None] | None = None
        self._read_up = threading.Event()
        threading.Thread(target=self._read, daemon=True).start()

    def open(self, show: Callable[[str], None]) -> None:
        """From now on, pass lines written to descriptor 2 to `show`."""
        self._show = show
        os.dup2(self._writer, STDERR)

    def close(self) -> None:
        """Wait until every line written so far is shown. The caller has restored descriptor 2."""
        self._read_up.clear()
        os.write(self._writer, _END)
        self._read_up.wait(1.0)
        self._show = None

    def _read(self) -> None:
        rest = b""
        while part := os.read(self._reader, 1 << 16):
            rest += part
            *lines, rest = rest.replace(_END, b"\n" + _END + b"\n").split(b"\n")
            for line in lines:
                self._line(line)
            rest = rest[-MAX_BYTES:]

    def _line(self, line: bytes) -> None:
        if line == _END:
            self._read_up.set()
        elif self._show is not None:
            with contextlib.suppress(Exception):  # keep reading, or the pipe fills up
                self._show(line[:MAX_BYTES].decode("utf-8", "replace"))
        else:
            with contextlib.suppress(OSError):
                os.write(STDERR, line + b"\n")


def _bounded(show: Callable[[str], None]) -> Callable[[str], None]:
    """`show` for the first lines that are not blank, then once a line that says there are more."""
    left = MAX_LINES

    def some(line: str) -> None:
        nonlocal left
        if not line.strip():
            return
        left -= 1
        if left >= 0:
            show(line)
        elif left == -1:
            show("… and more, which --quiet shows")

    return some
