"""Views of a run: the panel on a terminal; elsewhere a line per stage and at most one every ten seconds; or silence."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from specextend_cli.engine.events import Prefilling, Step
from specextend_cli.humanize import format_many, format_percent, format_speed
from specextend_cli.summarize.events import ChunkRead, Event, Level, Plan, Retried, Stage
from specextend_cli.ui.panel import Panel
from specextend_cli.ui.progress import (
    View,
    format_doing,
    format_done,
    format_drafts,
    format_left,
    format_level,
    format_stage,
    format_task,
)
from specextend_cli.ui.streams import Output

EVERY = 10.0


class Plain(View):
    """Writes a line to stderr when a stage begins, and a status every ten seconds."""

    def __init__(self, output: Output, document: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(output, document, clock=clock)
        self._last_line = clock()
        self._stage = ""
        self._text_shown = False

    def add(self, event: Event) -> None:
        """Take one event; write a line if a stage begins or the last line is ten seconds old."""
        super().add(event)
        match event:
            case Plan():
                size = [format_many(event.pages, event.unit), format_many(event.tokens, event.counted)]
                if len(event.chunks) > 1:
                    size.append(format_many(len(event.chunks), "chunk"))
                self._write_line(f"{self.progress.document}: {', '.join(size)}")
            case Stage() if event.name != self._stage:
                self._stage = event.name
                self._write_line(event.name)
            case Level():
                left = format_left(self.progress) if event.reused < event.prompts else ""
                self._write_line(" · ".join(filter(None, (format_level(event), left))))
            case Retried():
                why = {"no answer": "there was no answer in it", "in circles": "it went in circles"}[event.flaw]
                self._write_line(f"part {event.number}/{event.parts} is written again: {why}")
            case Stage() | Prefilling() | Step() | ChunkRead() if (
                self.progress.clock() - self._last_line >= EVERY and not self._text_shown
            ):
                self._write_line(self._status())

    def write(self, text: str) -> None:
        """Write text of the result to stdout. On a shared terminal no status follows, which would interrupt it."""
        self._text_shown = self.output.shared
        super().write(text)

    def __exit__(self, kind: object, *error: object) -> None:
        super().__exit__(kind, *error)
        if self.progress.summary is not None and kind is None:
            self._write_line(f"done · {format_done(self.progress.summary, self.progress.read)}")

    def _status(self) -> str:
        progress = self.progress
        if progress.stage is not None:
            return f"{progress.stage.name} {format_stage(progress.stage)}".rstrip()
        share = progress.estimate.share
        done = "" if share is None else format_percent(share)
        task = " ".join(format_task(progress)).strip()
        drafts = format_drafts(progress.meter) if progress.batch_size == 1 else ()
        speed = format_speed(progress.speed)
        pieces = (done, format_left(progress), task, format_doing(progress), speed, *drafts)
        return " · ".join(filter(None, pieces))

    def _write_line(self, line: str) -> None:
        self._last_line = self.progress.clock()
        self.output.note(line)


def open_view(output: Output, document: str, *, raw: bool = False, many: bool = False) -> View:
    """The view for this output. `raw` results are for programs and are not wrapped; `many`: it is one of many."""
    if output.quiet:
        return View(output, document)
    return Panel(output, document, raw=raw, many=many) if output.animated else Plain(output, document)


@contextmanager
def fetching(output: Output, name: str) -> Iterator[Callable[[str, int, int], None]]:
    """A callback `progress(step, done, total)` in bytes for downloads. Nothing is shown before its first call."""
    shown: list[View] = []
    with ExitStack() as stack:

        def progress(step: str, done: int, total: int) -> None:
            if not shown:
                shown.append(stack.enter_context(open_view(output, name)))
            shown[0].add(Stage(step, done, total, "bytes"))

        yield progress
