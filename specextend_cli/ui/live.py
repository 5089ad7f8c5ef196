"""Frames and text that are drawn on a terminal whose width may change while they stand there."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from rich.cells import cell_len, set_cell_size
from rich.console import Console, ConsoleOptions, ConsoleRenderable, RenderableType, RenderResult
from rich.control import Control
from rich.live import Live
from rich.segment import ControlType, Segment


class ReflowingLive(Live):
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


@dataclass
class _Measured:
    """A renderable that reports the widths of its lines when it is drawn."""

    renderable: RenderableType
    report: Callable[[Sequence[int]], None]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        lines = console.render_lines(self.renderable, options, pad=False)
        self.report([Segment.get_line_length(line) for line in lines])
        for number, line in enumerate(lines):
            if number:
                yield Segment.line()
            yield from line


def _reflows() -> bool:
    """Whether the terminal folds lines when it becomes narrower; xterm, rxvt, screen and the Linux console do not."""
    kind = os.environ.get("TERM", "")
    return not kind.startswith(("linux", "rxvt")) and not {"XTERM_VERSION", "STY"} & os.environ.keys()


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


def fold(paragraph: str, width: int) -> list[str]:
    """Lines of at most `width` cells, broken at spaces if possible. The last one keeps its trailing space."""
    lines = []
    while cell_len(paragraph.rstrip()) > width:
        fits = set_cell_size(paragraph, width + 1)
        space = fits.rfind(" ", 1)
        cut = space if space > 0 and paragraph[:space].strip() else len(set_cell_size(paragraph, width).rstrip())
        cut = max(cut, 1)
        lines.append(paragraph[:cut].rstrip())
        paragraph = paragraph[cut:].lstrip(" ")
    return [*lines, paragraph]
