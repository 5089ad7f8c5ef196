"""The live panel on stderr: at most eight rows that show what decoding is doing, and one line when it is done.

    with Panel(output, "paper.pdf") as panel:
        for event in summarizer.run(document):
            panel.add(event)

Where stdout is the same terminal, what is passed to `write` appears above the panel, line by line, and the line that
is not finished yet inside it: the summary itself is never part of the live area, so any length of it is fine.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from types import TracebackType

from rich.control import Control
from rich.live import Live
from rich.segment import ControlType
from rich.text import Text

from specextend_cli.summarize.events import Event, Warned
from specextend_cli.ui import keys
from specextend_cli.ui.dashboard import Dashboard, collapsed
from specextend_cli.ui.marks import warn_unsupported
from specextend_cli.ui.memory import memory
from specextend_cli.ui.progress import Progress
from specextend_cli.ui.streams import Output, sanitize
from specextend_cli.ui.wrap import Lines

PROSE = 96  # cells; longer lines are hard to read


class Panel:
    """Consumes events; draws them on stderr until it is closed."""

    def __init__(
        self, output: Output, document: str, *, raw: bool = False, clock: Callable[[], float] | None = None
    ) -> None:
        self.output = output
        self.progress = Progress(document, clock) if clock else Progress(document)
        self._lines = Lines()
        self._raw = raw
        self._lock = threading.Lock()
        self._wrote = False
        self._warnings: list[str] = []
        self._live = _Live(
            console=output.console,
            get_renderable=lambda: Dashboard(self.progress, self._lines.tail, memory(), self._lock),
            redirect_stdout=False,
            redirect_stderr=False,
            transient=True,
            refresh_per_second=8,
            vertical_overflow="crop",
        )

    def add(self, event: Event) -> None:
        """Take one event in; it is drawn with the next frame."""
        with self._lock:
            self.progress.add(event)
        if isinstance(event, Warned):
            self._warn(event.message)

    def write(self, text: str) -> None:
        """Put text on stdout; on a shared terminal complete lines go above the panel, the rest inside it.

        Prose is folded to lines that are pleasant to read; `raw` text, which a program may read, is left as it is.
        """
        if not self.output.shared:
            self.output.write(text)
            return
        with self._lock:
            lines = self._lines.feed(sanitize(text), self._width)
        self._print(lines)

    def __enter__(self) -> Panel:
        keys.hush(self.output.stderr)
        self._live.start(refresh=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with self._lock:
            lines = self._lines.close()
        self._live.stop()
        keys.restore()
        self._print(lines)
        if self._wrote:
            self.output.console.print()
        for message in self._warnings:
            self.output.warn(message)
        if self.progress.summary is not None:
            warn_unsupported(self.output, self.progress.summary)
            self.output.console.print(collapsed(self.progress))

    @property
    def _width(self) -> int:
        if self._raw:
            return sys.maxsize
        return max(min(self.output.console.width - 4, PROSE), 8)

    def _print(self, lines: list[str]) -> None:
        for line in lines:
            self._wrote = True
            self.output.console.print(Text(line), soft_wrap=True)

    def _warn(self, message: str) -> None:
        # A warning in the middle of the summary would read as part of it: it waits until the end.
        if self._wrote or self._lines.tail:
            self._warnings.append(message)
        else:
            self.output.warn(message)


class _Live(Live):
    """Rich's Live, made to survive a terminal that becomes narrower and folds the frame it shows."""

    _width = 0

    def refresh(self) -> None:
        with self._lock:
            width = self.console.width
            if self._width > width and self.is_started and _reflows():
                rows = self._live_render.last_render_height
                folded = rows * (-(-self._width // width) - 1)
                self.console.control(
                    Control(
                        ControlType.CARRIAGE_RETURN,
                        (ControlType.ERASE_IN_LINE, 2),
                        *((ControlType.CURSOR_UP, 1), (ControlType.ERASE_IN_LINE, 2)) * folded,
                    )
                )
            self._width = width
            super().refresh()


def _reflows() -> bool:
    """Whether the terminal folds lines that no longer fit; the ones known not to are xterm and the Linux console."""
    return "XTERM_VERSION" not in os.environ and os.environ.get("TERM") != "linux"
