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
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from types import TracebackType

from rich.console import Console, ConsoleOptions, ConsoleRenderable, RenderableType, RenderResult
from rich.control import Control
from rich.live import Live
from rich.segment import ControlType, Segment
from rich.text import Text

from specextend_cli.summarize.events import Event, Warned
from specextend_cli.ui import keys
from specextend_cli.ui.annotations import warn_unsupported
from specextend_cli.ui.colours import QUIET
from specextend_cli.ui.dashboard import Dashboard, collapsed
from specextend_cli.ui.foreign_output import held_back
from specextend_cli.ui.memory import memory
from specextend_cli.ui.progress import Progress
from specextend_cli.ui.streams import Output, sanitize, warning
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
        self._warnings: list[Text] = []
        self._held = ExitStack()
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
            self._beside(warning(event.message))

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
        self._held.enter_context(held_back(self.output, lambda line: self._beside(Text(sanitize(line), style=QUIET))))
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
        self._held.close()
        self._print(lines)
        if self._wrote:
            self.output.console.print()
        for message in self._warnings:
            self.output.note(message)
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
            with self._live.still:
                self.output.console.print(Text(line), soft_wrap=True)

    def _beside(self, message: Text) -> None:
        # A warning in the middle of the summary would read as part of it: it waits until the end.
        if self._wrote or self._lines.tail:
            self._warnings.append(message)
        else:
            with self._live.still:
                self.output.note(message)


class _Live(Live):
    """Rich's Live, made to survive a terminal that becomes narrower and folds the frame it shows."""

    _drawn: Sequence[int] = ()
    """Cells of the lines that are shown."""

    @property
    def still(self) -> AbstractContextManager[object]:
        """No frame is drawn in its body. Rich would let one come between a print's way up to the frame and its text."""
        return self._lock

    def get_renderable(self) -> RenderableType:
        """What is to be shown, which notes how wide its lines are."""
        return _Measured(super().get_renderable(), self._note)

    def _note(self, widths: Sequence[int]) -> None:
        self._drawn = widths

    def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
        """Whatever is printed replaces the frame: first the lines that have come of folding it."""
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
    """A renderable that tells how wide each of its lines is when it is drawn."""

    def __init__(self, renderable: RenderableType, tell: Callable[[Sequence[int]], None]) -> None:
        self._renderable = renderable
        self._tell = tell

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        lines = console.render_lines(self._renderable, options, pad=False)
        self._tell([Segment.get_line_length(line) for line in lines])
        for number, line in enumerate(lines):
            if number:
                yield Segment.line()
            yield from line


def _reflows() -> bool:
    """Whether the terminal folds lines that no longer fit; known not to: xterm, rxvt, screen and the Linux console."""
    kind = os.environ.get("TERM", "")
    return not kind.startswith(("linux", "rxvt")) and not {"XTERM_VERSION", "STY"} & os.environ.keys()
