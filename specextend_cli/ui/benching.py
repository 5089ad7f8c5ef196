"""A benchmark while it runs, on stderr: one moving line on a terminal, a line a run elsewhere.

with open_bench(output) as view:
    for event in run(options):
        view.add(event)
"""

from __future__ import annotations

import time
from contextlib import ExitStack

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Column

from specextend_cli.bench.events import Checked, Event, Measured, Skipped, Started, Working
from specextend_cli.bench.records import Record, format_length
from specextend_cli.documents.names import printable
from specextend_cli.humanize import format_amount, format_count, format_seconds
from specextend_cli.summarize.events import Stage, Warned
from specextend_cli.ui.streams import Output
from specextend_cli.ui.terminal import captured_stderr, disable_echo, restore_echo

EVERY = 10.0  # seconds of silence after which a plain line says where things stand


class BenchView:
    """Consumes events; this one keeps quiet, warnings excepted: nobody asks not to be warned."""

    def __init__(self, output: Output) -> None:
        self.output = output
        self.started: Started | None = None
        self.done = 0

    def add(self, event: Event) -> None:
        """Take one event in."""
        match event:
            case Started():
                self.started, self.done = event, event.done
            case Measured():
                self.done = event.done
            case Warned():
                self.output.warn(event.message)
            case Skipped():
                self.output.warn(f"{event.method} is left out: {event.why}")
            case Checked() if event.record.divergence is not None:
                self.output.warn(format_divergence(event.record))
            case _:
                pass
        self.show(event)

    def show(self, event: Event) -> None:
        """What a view of another kind draws."""

    def stopped(self) -> str:
        """What a run that ends early leaves behind."""
        if self.started is None:
            return "stopped; nothing was measured"
        return f"{self.done}/{self.started.runs} runs saved; run again to continue"

    def __enter__(self) -> BenchView:
        return self

    def __exit__(self, *exception: object) -> None:
        """Nothing to close."""


class _Lines(BenchView):
    """A line for every run and stage."""

    def __init__(self, output: Output) -> None:
        super().__init__(output)
        self._spoke = time.monotonic()
        self._stage = ""

    def show(self, event: Event) -> None:
        """See `BenchView`."""
        match event:
            case Started():
                self._say(format_started(event))
            case Measured():
                self._say(f"[{event.done}/{event.runs}] {format_record(event.record)}")
            case Stage() if event.name != self._stage:
                self._stage = event.name
                self._say(event.name)
            case Working() | Stage() if time.monotonic() - self._spoke >= EVERY:
                self._say(format_status(event))
            case _:
                pass

    def _say(self, line: str) -> None:
        self._spoke = time.monotonic()
        self.output.note(line)


class _Bar(BenchView):
    """A bar over all runs, and what is going on; gone when it is over."""

    def __init__(self, output: Output) -> None:
        super().__init__(output)
        self._progress = Progress(
            TextColumn(
                "{task.description}", markup=False, table_column=Column(no_wrap=True, overflow="ellipsis", ratio=1)
            ),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=output.console,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._task = self._progress.add_task("", total=None)
        self._held = ExitStack()

    def show(self, event: Event) -> None:
        """See `BenchView`."""
        match event:
            case Started():
                self._progress.update(self._task, total=event.runs, completed=event.done)
                if event.done:
                    self.output.note(format_started(event))
            case Measured():
                self._progress.update(self._task, completed=event.done)
            case Working() | Stage():
                self._progress.update(self._task, description=format_status(event))
            case _:
                pass

    def __enter__(self) -> BenchView:
        self._held.enter_context(captured_stderr(self.output, self.output.note))
        disable_echo(self.output.stderr)
        self._progress.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._progress.stop()
        restore_echo()
        self._held.close()


def open_bench(output: Output) -> BenchView:
    """The view that fits."""
    if output.quiet:
        return BenchView(output)
    return _Bar(output) if output.animated else _Lines(output)


def format_started(event: Started) -> str:
    """What is to be done, and what is done already."""
    if event.done:
        return f"continuing: {event.done} of {event.runs} runs were measured before (--fresh starts anew)"
    return f"{format_count(event.runs)} runs"


def format_record(record: Record) -> str:
    """One run in a line."""
    seconds = record.decode_seconds
    speed = f"{(len(record.tokens) - 1) / seconds:.1f} tokens/s, " if seconds else ""
    where = f"{format_length(record.length)} {printable(record.document)}"
    return f"{record.method} · {where} · {speed}prefill {format_seconds(record.prefill_seconds)}"


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
    where = f"{format_length(record.length)} {printable(record.document)}"
    return f"{record.method} · {where} · differs from plain decoding from token {record.divergence.index + 1} on{gap}"
