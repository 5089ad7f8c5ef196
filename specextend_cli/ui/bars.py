"""Benchmarks while they run, on stderr: a bar on a terminal, lines elsewhere, or silence."""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, TextColumn, TimeElapsedColumn
from rich.table import Column

from specextend_cli.bench.events import Checked, Event, Measured, Skipped, Started, Working
from specextend_cli.bench.records import Record, format_length
from specextend_cli.humanize import format_amount, format_count, format_seconds, printable
from specextend_cli.summarize.events import Stage, Warned
from specextend_cli.ui.streams import Output
from specextend_cli.ui.terminal import clean_terminal

if TYPE_CHECKING:
    from typing import Self

EVERY = 10.0  # seconds of silence after which a plain line says where things stand


class _BarView:
    """A context manager with a bar, `bar`, where there is a terminal and `output` is not quiet."""

    def __init__(self, output: Output, *columns: ProgressColumn, **task: Any) -> None:
        self.output = output
        self._held = ExitStack()
        self._spoke = 0.0
        self.bar: Progress | None = None
        if output.animated and not output.quiet:
            self.bar = Progress(
                *columns, console=output.console, transient=True, redirect_stdout=False, redirect_stderr=False
            )
            self._task = self.bar.add_task(**task)

    def update(self, **values: Any) -> None:
        """Change the bar, if there is one."""
        if self.bar is not None:
            self.bar.update(self._task, **values)

    def say(self, line: str) -> None:
        """Write a line."""
        self._spoke = time.monotonic()
        self.output.status(line)

    @property
    def is_silent(self) -> bool:
        """True if no line was written for a while."""
        return time.monotonic() - self._spoke >= EVERY

    def __enter__(self) -> Self:
        if self.bar is not None:
            self._held.enter_context(clean_terminal(self.output, self.output.note))
            self._held.enter_context(self.bar)
        return self

    def __exit__(self, *exception: object) -> None:
        self._held.close()


class BenchView(_BarView):
    """Consumes the events of a benchmark. Warnings are shown even where `output` is quiet."""

    def __init__(self, output: Output) -> None:
        column = Column(no_wrap=True, overflow="ellipsis", ratio=1)
        columns = TextColumn("{task.description}", markup=False, table_column=column), BarColumn(bar_width=24)
        counts = MofNCompleteColumn(), TimeElapsedColumn()
        super().__init__(output, *columns, *counts, description="starting", total=None)
        self._spoke = time.monotonic()
        self._stage = ""
        self._started: Started | None = None
        self._done = 0

    def add(self, event: Event) -> None:
        """Take one event in."""
        match event:
            case Started():
                self._started, self._done = event, event.done
                self.update(total=event.runs, completed=event.done)
                if event.done:
                    runs = f"{event.done} of {event.runs} runs were measured before"
                    self.say(f"continuing: {runs} (--fresh starts anew)")
                elif self.bar is None:
                    self.say(f"{format_count(event.runs)} runs")
            case Measured():
                self._done = event.done
                self.update(completed=event.done)
                if self.bar is None:
                    self.say(f"[{event.done}/{event.runs}] {format_record(event.record)}")
            case Warned():
                self.output.warn(event.message)
            case Skipped():
                self.output.warn(f"{event.method} is left out: {event.why}")
            case Checked() if event.record.divergence is not None:
                self.output.warn(format_divergence(event.record))
            case Working() | Stage() if self.bar is not None:
                self.update(description=format_status(event))
            case Stage() if event.name != self._stage:
                self._stage = event.name
                self.say(event.name)
            case Working() | Stage() if self.is_silent:
                self.say(format_status(event))

    def stopped(self) -> str:
        """What a run that ends early leaves behind."""
        if self._started is None:
            return "stopped; nothing was measured"
        return f"{self._done}/{self._started.runs} runs saved; run again to continue"


def format_record(record: Record) -> str:
    """One run in a line."""
    seconds = record.decode_seconds
    speed = f"{(len(record.tokens) - 1) / seconds:.1f} tokens/s, " if seconds else ""
    return f"{_what(record)} · {speed}prefill {format_seconds(record.prefill_seconds)}"


def format_status(event: Working | Stage) -> str:
    """What is going on, in a line."""
    if isinstance(event, Working):
        done = f" · {format_count(event.done)}/{format_count(event.total)}" if event.total else ""
        return f"{printable(event.what)}{done}"
    return f"{event.name}{f' {format_amount(event.done, event.unit)}' if event.total else ''}"


def format_divergence(record: Record) -> str:
    """Where a run left plain decoding."""
    assert record.divergence is not None
    gap = "" if record.divergence.gap is None else f", where the two best are {record.divergence.gap:.2g} apart"
    return f"{_what(record)} · differs from plain decoding from token {record.divergence.index + 1} on{gap}"


def _what(record: Record) -> str:
    return f"{record.method} · {format_length(record.length)} {printable(record.document)}"
