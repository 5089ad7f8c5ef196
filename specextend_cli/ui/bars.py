"""Benchmarks and training while they run, on stderr: a bar on a terminal, lines elsewhere, or silence."""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, TextColumn, TimeElapsedColumn
from rich.table import Column

from specextend_cli.bench.formats import format_length
from specextend_cli.bench.results import Measured, Record, Running, Working
from specextend_cli.humanize import format_amount, format_clock, format_count, format_percent, format_seconds, printable
from specextend_cli.summarize.events import Stage, Warned
from specextend_cli.train.events import (
    Answering,
    Done,
    Observing,
    Resumed,
    Trained,
    TrainEvent,
    Validated,
    VocabularyChosen,
)
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

    def add(self, event: Running) -> None:
        """Take one event in."""
        match event:
            case Measured():
                self.update(total=event.runs, completed=event.done)
                if self.bar is None:
                    self.say(f"[{event.done}/{event.runs}] {format_record(event.record)}")
            case Warned():
                self.output.warn(event.message)
            case Working() | Stage() if self.bar is not None:
                self.update(description=format_status(event))
            case Stage() if event.name != self._stage:
                self._stage = event.name
                self.say(event.name)
            case Working() | Stage() if self.is_silent:
                self.say(format_status(event))


def format_record(record: Record) -> str:
    """One run in a line."""
    seconds = record.decode_seconds
    speed = f"{(len(record.tokens) - 1) / seconds:.1f} tokens/s, " if seconds else ""
    where = f"{record.method} · {format_length(record.length)} {printable(record.document)}"
    return f"{where} · {speed}prefill {format_seconds(record.prefill_seconds)}"


def format_status(event: Working | Stage) -> str:
    """What is going on, in a line."""
    if isinstance(event, Working):
        done = f" · {format_count(event.done)}/{format_count(event.total)}" if event.total else ""
        return f"{printable(event.what)}{done}"
    return f"{event.name}{f' {format_amount(event.done, event.unit)}' if event.total else ''}"


class TrainingView(_BarView):
    """Consumes the events of a training run; every validation is a line."""

    def __init__(self, output: Output) -> None:
        columns = TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[figures]}")
        super().__init__(output, *columns, description="starting", total=1.0, figures="")

    def add(self, event: TrainEvent) -> None:
        """Show one event."""
        match event:
            case Answering():
                figures = f"{format_count(event.done)} answers, {format_count(event.tokens)} tokens"
                self._progress("the target answers", None, f"{figures}, {format_clock(event.seconds)}")
            case VocabularyChosen():
                self.output.status(
                    f"vocabulary: {format_count(event.size)} tokens, {format_percent(event.answers)} of the target's "
                    f"answers, {format_percent(event.documents)} of the documents"
                )
            case Observing():
                self._progress("the first weights", event.done / event.total, f"{event.done} of {event.total} answers")
            case Resumed():
                seconds = format_seconds(event.seconds)
                self.output.status(f"going on from step {format_count(event.step)}, {seconds} in")
            case Trained():
                figures = f"step {format_count(event.step)}, loss {event.loss:.3f}, {format_count(event.tokens)} tokens"
                self._progress("training", event.share, f"{figures}, {format_clock(event.seconds)}")
            case Validated():
                depths = " ".join(f"{share:.2f}" for share in event.agreement)
                best = ", the best so far" if event.best else ""
                quoted = "" if event.quoted is None else f" ({event.quoted:.2f} in quotes)"
                accepted = f"accepted length {event.accepted:.2f}{quoted}, agreement by depth {depths}{best}"
                self.output.status(f"step {format_count(event.step)}: {accepted}")
            case Done():
                step = f"step {format_count(event.step)}"
                self.output.status(f"{event.reason} after {step}: accepted length {event.accepted:.2f}")

    def _progress(self, what: str, share: float | None, figures: str) -> None:
        self.update(description=what, completed=share, total=share and 1.0, figures=figures)
        if self.bar is None and self.is_silent:
            self.say(f"{what}: {figures}" + ("" if share is None else f", {format_percent(share)}"))
