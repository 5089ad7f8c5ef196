"""Progress without a terminal: one line on stderr a stage, and one every ten seconds at most in between."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType

from specextend_cli.engine.events import Prefilling, Step
from specextend_cli.humanize import format_many, format_percent
from specextend_cli.summarize.events import Event, Level, Plan, Retried, Stage, Warned
from specextend_cli.ui.annotations import warn_unsupported
from specextend_cli.ui.progress import (
    Progress,
    format_doing,
    format_done,
    format_flaw,
    format_left,
    format_level,
    format_speed,
    format_stage,
    format_task,
)
from specextend_cli.ui.streams import Output

EVERY = 10.0


class Plain:
    """Consumes events; writes a line to stderr where something new begins."""

    def __init__(self, output: Output, document: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.output = output
        self.progress = Progress(document, clock)
        self._clock = clock
        self._spoke = clock()
        self._stage = ""
        self._in_the_way = False

    def add(self, event: Event) -> None:
        """Take one event in; say so if it is a landmark, or if there was silence for a while."""
        self.progress.add(event)
        match event:
            case Warned():
                self.output.warn(event.message)
            case Plan():
                size = [format_many(event.pages, event.unit), format_many(event.tokens, "token")]
                if len(event.chunks) > 1:
                    size.append(format_many(len(event.chunks), "chunk"))
                self._say(f"{self.progress.document}: {', '.join(size)}")
            case Stage() if event.name != self._stage:
                self._stage = event.name
                self._say(event.name)
            case Level():
                left = format_left(self.progress) if event.reused < event.prompts else ""
                self._say(" · ".join(filter(None, (format_level(event), left))))
            case Retried():
                self._say(f"part {event.number}/{event.parts} is written again: {format_flaw(event.flaw)}")
            case Stage() | Prefilling() | Step() if self._clock() - self._spoke >= EVERY and not self._in_the_way:
                self._say(self._status())
            case _:
                pass

    def write(self, text: str) -> None:
        """Put text of the result on stdout. Once it appears on the same terminal, a status would cut it in two."""
        self._in_the_way = self.output.shared
        self.output.write(text)

    def __enter__(self) -> Plain:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self.progress.summary is not None:
            warn_unsupported(self.output, self.progress.summary)
            self._say(f"done · {format_done(self.progress.summary, self.progress.read)}")

    def _status(self) -> str:
        progress = self.progress
        if progress.stage is not None:
            return f"{progress.stage.name} {format_stage(progress.stage)}".rstrip()
        share = progress.estimate.share
        done = "" if share is None else format_percent(share)
        task = " ".join(format_task(progress)).strip()
        told = (done, format_left(progress), task, format_doing(progress), *format_speed(progress.meter))
        return " · ".join(filter(None, told))

    def _say(self, line: str) -> None:
        self._spoke = self._clock()
        self.output.note(line)


class Silent:
    """Consumes events and keeps quiet, warnings excepted: nobody asks not to be warned."""

    def __init__(self, output: Output, document: str) -> None:
        self.output = output
        self.progress = Progress(document)

    def add(self, event: Event) -> None:
        """Take one event in."""
        self.progress.add(event)
        if isinstance(event, Warned):
            self.output.warn(event.message)

    def write(self, text: str) -> None:
        """Put text of the result on stdout."""
        self.output.write(text)

    def __enter__(self) -> Silent:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Say what a summary has that its source has not."""
        if self.progress.summary is not None:
            warn_unsupported(self.output, self.progress.summary)
