"""The live panel on stderr: at most eight rows about the run, and one line when it is done.

If stdout is the same terminal, text passed to `write` appears above the panel line by line, and the unfinished line
inside it. Complete lines leave the live area, so the summary may have any length.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack

from rich.console import Console, ConsoleOptions, ConsoleRenderable, RenderableType, RenderResult
from rich.control import Control
from rich.live import Live
from rich.segment import ControlType, Segment
from rich.text import Text

from specextend_cli.summarize.events import Event, Preview, Warned
from specextend_cli.ui.dashboard import Dashboard, collapsed, fold, format_memory
from specextend_cli.ui.progress import View
from specextend_cli.ui.streams import QUIET, WARNED, Output, sanitize, warning
from specextend_cli.ui.terminal import clean_terminal

PROSE = 96  # cells; longer lines are hard to read


class Panel(View):
    """Draws the state of a run on stderr until it is closed."""

    def __init__(self, output: Output, document: str, *, raw: bool = False) -> None:
        super().__init__(output, document)
        self._lines = Lines()
        self._raw = raw
        self._lock = threading.Lock()
        self._wrote = False
        self._warnings: list[Text] = []
        self._held = ExitStack()
        self._live = _Live(
            console=output.console,
            get_renderable=lambda: Dashboard(self.progress, self._lines.tail, format_memory(), self._lock),
            redirect_stdout=False,
            redirect_stderr=False,
            transient=True,
            refresh_per_second=8,
            vertical_overflow="crop",
        )

    def add(self, event: Event) -> None:
        """Take one event; the next frame shows it."""
        with self._lock:
            self.progress.add(event)
        if isinstance(event, Warned):
            self._beside(warning(event.message))
        elif isinstance(event, Preview):
            self._live.refresh()  # now: what follows imports torch, which may leave other threads no time

    def write(self, text: str) -> None:
        """Write text to stdout; on a shared terminal above and in the panel, where prose is wrapped, `raw` text not."""
        if not self.output.shared:
            super().write(text)
            return
        with self._lock:
            width = sys.maxsize if self._raw else max(min(self.output.console.width - 4, PROSE), 8)
            lines = self._lines.feed(sanitize(text), width)
        self._print(lines)

    def __enter__(self) -> Panel:
        self._held.enter_context(clean_terminal(self.output, self._foreign))
        try:
            self._live.start(refresh=True)
        except BaseException:  # ^C while the first frame is drawn: nobody else would erase it
            self._live.stop()
            self._held.close()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        with self._lock:
            lines = self._lines.close()
        self._live.stop()
        self._held.close()
        self._print(lines)
        if self._wrote:
            self.output.console.print()
        for message in self._warnings:
            self.output.note(message, indent=WARNED)
        super().__exit__(*exception)
        if self.progress.summary is not None:
            self.output.console.print(collapsed(self.progress))

    def _print(self, lines: list[str]) -> None:
        for line in lines:
            self._wrote = True
            with self._live.still:
                self.output.console.print(Text(line), soft_wrap=True)

    def _foreign(self, line: str) -> None:
        self._beside(Text(sanitize(line), style=QUIET))

    def _beside(self, message: Text) -> None:
        # A warning within the summary would read as part of it, so it is shown at the end.
        if self._wrote or self._lines.tail:
            self._warnings.append(message)
        else:
            with self._live.still:
                self.output.note(message, indent=WARNED)


class Lines:
    """Wraps text that arrives in pieces into lines of at most `width` cells; `tail` is the unfinished line."""

    def __init__(self) -> None:
        self.tail = ""

    def feed(self, text: str, width: int) -> list[str]:
        """The lines that `text` completes."""
        *paragraphs, self.tail = (self.tail + text).expandtabs(4).split("\n")
        done = []
        for paragraph in paragraphs:
            *full, last = fold(paragraph, width)
            done += [*full, last.rstrip()]
        *full, self.tail = fold(self.tail, width)
        return done + full

    def close(self) -> list[str]:
        """The unfinished line, if there is one."""
        tail, self.tail = self.tail.rstrip(), ""
        return [tail] if tail else []


class _Live(Live):
    """Rich's Live for terminals that fold the frame when they become narrower."""

    _drawn: Sequence[int] = ()  # widths of the lines of the last frame

    @property
    def still(self) -> AbstractContextManager[object]:
        """A lock under which no frame is drawn: Rich might draw one between moving the cursor and printing."""
        return self._lock

    def get_renderable(self) -> RenderableType:
        """The frame, wrapped so that the widths of its lines are recorded."""
        return _Measured(super().get_renderable(), self._record)

    def _record(self, widths: Sequence[int]) -> None:
        self._drawn = widths

    def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
        """Erase the lines that folding the last frame added before anything is printed."""
        with self._lock:
            return [self._unfold(), *super().process_renderables(renderables)]

    def _unfold(self) -> Control:
        width = max(self.console.width, 1)
        folded = sum(-(-max(drawn, 1) // width) - 1 for drawn in self._drawn) if _reflows() else 0
        return Control(
            ControlType.CARRIAGE_RETURN,
            (ControlType.ERASE_IN_LINE, 2),
            *((ControlType.CURSOR_UP, 1), (ControlType.ERASE_IN_LINE, 2)) * folded,
        )


class _Measured:
    """A renderable that reports the widths of its lines when it is drawn."""

    def __init__(self, renderable: RenderableType, report: Callable[[Sequence[int]], None]) -> None:
        self._renderable = renderable
        self._report = report

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        lines = console.render_lines(self._renderable, options, pad=False)
        self._report([Segment.get_line_length(line) for line in lines])
        for number, line in enumerate(lines):
            if number:
                yield Segment.line()
            yield from line


def _reflows() -> bool:
    """Whether the terminal folds lines when it becomes narrower; xterm, rxvt, screen and the Linux console do not."""
    kind = os.environ.get("TERM", "")
    return not kind.startswith(("linux", "rxvt")) and not {"XTERM_VERSION", "STY"} & os.environ.keys()
