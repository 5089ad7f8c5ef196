"""A benchmark while it runs, on stderr: a panel on a terminal, lines elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

from specextend_cli.bench.events import Checked, Event, Measured, Skipped, Started, Working
from specextend_cli.bench.records import Record, format_length
from specextend_cli.humanize import format_count, format_seconds, format_speed, printable
from specextend_cli.summarize.events import Stage, Warned
from specextend_cli.ui.output import Output
from specextend_cli.ui.panel import open_view

if TYPE_CHECKING:
    from typing import Self


class BenchView:
    """Consumes the events of a benchmark."""

    def __init__(self, output: Output) -> None:
        self.output = output
        self._view = open_view(output, "bench")
        self._started: Started | None = None
        self._done = 0

    def add(self, event: Event) -> None:
        """Take one event in."""
        match event:
            case Started():
                self._started, self._done = event, event.done
                if event.done:
                    runs = f"{event.done} of {event.runs} runs were measured before"
                    self._view.say(f"continuing: {runs} (--fresh starts anew)")
                else:
                    self._view.say(f"{format_count(event.runs)} runs")
            case Measured():
                self._done = event.done
                self._view.say(f"[{event.done}/{event.runs}] {format_record(event.record)}")
            case Skipped():
                self._view.add(Warned(f"{event.method} is left out: {event.why}"))
            case Checked() if event.record.divergence is not None:
                self._view.add(Warned(format_divergence(event.record)))
            case Working():
                self._view.add(Stage(printable(event.what), event.done, event.total))
            case Stage() | Warned():
                self._view.add(event)

    def stopped(self) -> str:
        """What a run that ends early leaves behind."""
        if self._started is None:
            return "stopped; nothing was measured"
        return f"{self._done}/{self._started.runs} runs saved; run again to continue"

    def __enter__(self) -> Self:
        self._view.__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        self._view.__exit__(*exception)


def format_record(record: Record) -> str:
    """One run in a line."""
    seconds = record.decode_seconds
    speed = f"{format_speed((len(record.tokens) - 1) / seconds)}, " if seconds else ""
    return f"{_what(record)} · {speed}prefill {format_seconds(record.prefill_seconds)}"


def format_divergence(record: Record) -> str:
    """Where a run left plain decoding."""
    assert record.divergence is not None
    gap = "" if record.divergence.gap is None else f", where the two best are {record.divergence.gap:.2g} apart"
    return f"{_what(record)} · differs from plain decoding from token {record.divergence.index + 1} on{gap}"


def _what(record: Record) -> str:
    return f"{record.method} · {format_length(record.length)} {printable(record.document)}"
