"""What others write to stderr while a panel is drawn there: libraries' warnings, and native code that logs.

A torch built for CUDA, on a machine without a GPU, writes in the middle of a frame and leaves half of it behind. While
the panel is shown, descriptor 2 is a pipe, whose lines are shown above the panel or, once the result is being written
there, behind it; the panel itself is drawn through a descriptor of its own.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from specextend_cli.ui.standard_streams import STDERR, forgiving

if TYPE_CHECKING:
    from specextend_cli.ui.streams import Output

LONGEST = 500
"""Bytes of a line that are kept."""
MOST = 40
"""Lines that are shown; a library that logs a line a token would bury everything else."""
_END = b"\x00specextend: all of it\x00"


@contextmanager
def held_back(output: Output, show: Callable[[str], None]) -> Iterator[None]:
    """Hand each line that others write to stderr to `show`, in another thread, while the body runs.

    Nothing happens where `output` does not draw on this process's stderr.
    """
    if not _is_ours(output):
        yield
        return
    sys.stderr.flush()
    before, terminal = output.stderr, os.dup(STDERR)
    output.draw_on(forgiving(terminal, before.encoding, before.errors or "strict"))
    _pipe().open(_bounded(show))
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(terminal, STDERR)
        _pipe().close()
        output.draw_on(before)
        os.close(terminal)


def _is_ours(output: Output) -> bool:
    try:
        return output.stderr.fileno() == STDERR
    except (OSError, ValueError):
        return False


class _Pipe:
    """One for the whole process: a child that was started under a panel may write into it long after that is gone."""

    def __init__(self) -> None:
        self._reader, self._writer = os.pipe()
        self._show: Callable[[str], None] | None = None
        self._read_up = threading.Event()
        threading.Thread(target=self._read, daemon=True).start()

    def open(self, show: Callable[[str], None]) -> None:
        """What goes to descriptor 2 from now on goes to `show`."""
        self._show = show
        os.dup2(self._writer, STDERR)

    def close(self) -> None:
        """Wait until everything that was written has been shown. Descriptor 2 is something else already."""
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
            rest = rest[-LONGEST:]

    def _line(self, line: bytes) -> None:
        if line == _END:
            self._read_up.set()
        elif self._show is not None:
            with contextlib.suppress(Exception):  # this thread must go on reading: the pipe would fill up
                self._show(line[:LONGEST].decode("utf-8", "replace"))
        else:
            with contextlib.suppress(OSError):
                os.write(STDERR, line + b"\n")


_made: list[_Pipe] = []


def _pipe() -> _Pipe:
    if not _made:
        _made.append(_Pipe())
    return _made[0]


def _bounded(show: Callable[[str], None]) -> Callable[[str], None]:
    """`show` for so many lines that say something; that there are more is said once."""
    left = MOST

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
