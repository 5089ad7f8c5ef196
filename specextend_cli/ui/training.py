"""Progress of training: a bar on a terminal, lines elsewhere; every validation is a line."""

from __future__ import annotations

import time
from contextlib import ExitStack

from rich.progress import BarColumn, Progress, TaskID, TextColumn

from specextend_cli.humanize import format_clock, format_count, format_percent, format_seconds
from specextend_cli.train.events import Answering, Done, Resumed, Trained, TrainEvent, Validated, VocabularyChosen
from specextend_cli.ui.streams import Output
from specextend_cli.ui.terminal import captured_stderr

_EVERY = 10.0  # seconds between two plain lines


class TrainingView:
    """Shows the events of a training run; a context manager."""

    def __init__(self, output: Output) -> None:
        self.output = output
        self._last = -_EVERY
        self._stack = ExitStack()
        self._bar: Progress | None = None
        self._task = TaskID(0)

    def __enter__(self) -> TrainingView:
        if self.output.animated and not self.output.quiet:
            self._stack.enter_context(captured_stderr(self.output, self.output.note))
            columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[figures]}"))
            bar = Progress(
                *columns, console=self.output.console, transient=True, redirect_stdout=False, redirect_stderr=False
            )
            self._bar = self._stack.enter_context(bar)
            self._task = self._bar.add_task("starting", total=1.0, figures="")
        return self

    def __exit__(self, *exception: object) -> None:
        self._stack.close()

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
            case Resumed():
                self.output.status(f"going on from step {format_count(event.step)}, {format_seconds(event.seconds)} in")
            case Trained():
                figures = f"step {format_count(event.step)}, loss {event.loss:.3f}, {format_count(event.tokens)} tokens"
                self._progress("training", event.share, f"{figures}, {format_clock(event.seconds)}")
            case Validated():
                depths = " ".join(f"{share:.2f}" for share in event.agreement)
                best = ", the best so far" if event.best else ""
                step = f"step {format_count(event.step)}"
                quoted = "" if event.quoted is None else f" ({event.quoted:.2f} in quotes)"
                self.output.status(
                    f"{step}: accepted length {event.accepted:.2f}{quoted}, agreement by depth {depths}{best}"
                )
            case Done():
                step = f"step {format_count(event.step)}"
                self.output.status(f"{event.reason} after {step}: accepted length {event.accepted:.2f}")

    def _progress(self, what: str, share: float | None, figures: str) -> None:
        if self._bar is not None:
            self._bar.update(self._task, description=what, completed=share, total=share and 1.0, figures=figures)
        elif time.monotonic() - self._last >= _EVERY:
            self._last = time.monotonic()
            self.output.status(f"{what}: {figures}" + ("" if share is None else f", {format_percent(share)}"))
