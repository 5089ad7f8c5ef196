"""Views of a run: the live panel on a terminal, lines elsewhere, silence.

If stdout is the terminal of the panel, text passed to `write` appears above it line by line, and the unfinished line
inside it. Complete lines leave the live area, so the summary may have any length.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import psutil
from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.live import Live
from rich.panel import Panel as Frame
from rich.text import Text

from specextend_cli.engine.events import Accepted, Prefilling
from specextend_cli.engine.meter import Meter
from specextend_cli.humanize import format_clock, format_count, format_percent, format_speedup, is_slower
from specextend_cli.summarize.events import Event, Part, Plan, Stage, Warned
from specextend_cli.ui.output import ACCENT, AMBER, GOOD, QUIET, Output, sanitize
from specextend_cli.ui.progress import (
    Progress,
    format_done,
    format_drafts,
    format_left,
    format_level,
    format_size,
    format_stage,
    format_task,
)
from specextend_cli.ui.results import format_unsupported
from specextend_cli.ui.tables import block, density, histogram

EVERY = 10.0  # seconds of silence after which a plain line says where things stand
WIDTH = 80  # columns of the panel
PROSE = 96  # columns of the summary on a terminal; longer lines are hard to read
_LABEL, _VALUE, _DETAIL = 9, 7, 30  # columns of a row; bars start after them
_TOLD = 0, 1, 3  # ranks of the rows that a line has
_FRAME = 3  # rows of the terminal that no row of the panel has: its frame, and the cursor's


class View:
    """Takes the events of a document and the text for stdout. This one writes lines: one a stage, or every ten seconds.

    Where the output is quiet, only warnings. `position` is that of the document among several: "2/9".
    """

    def __init__(
        self, output: Output, document: str, position: str = "", *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.output = output
        self.document = document
        self.position = position
        self.title = f"{position} {document}".lstrip()
        age = 0.0 if position else time.time() - psutil.Process().create_time()
        self.progress = Progress(clock, age)
        self._spoke = self.progress.began
        self._shares = False  # whether text was written where the lines are, too
        self._level = 0  # that was said to begin

    def add(self, event: Event) -> None:
        """Take one event."""
        before = self.progress.stage
        self.progress.add(event)
        is_due = not self._shares and self.progress.clock() - self._spoke >= EVERY
        match event:
            case Warned():
                self.output.warn(event.message)
            case Plan():
                self.say(f"{self.title}: {format_size(event)}")
            case Stage() if before is None or before.name != event.name:
                self.say(event.name)
            case Part(reused=False) if event.level > self._level:  # those of earlier runs come first
                self._level, begins = event.level, format_level(event, self.progress.reused)
                self.say(" · ".join(filter(None, (begins, format_left(self.progress)))))
            case Stage() | Prefilling() | Accepted() if is_due:
                rows = (row.plain.split() for rank, row in _rows(self.progress, "", 0) if rank in _TOLD)
                self.say(" · ".join(map(" ".join, rows)))

    def fetched(self, step: str, done: int, total: int) -> None:
        """Take progress of a download, in bytes."""
        self.add(Stage(step, done, total, "bytes"))

    def write(self, text: str) -> None:
        """Write text of the result to stdout without disturbing what the terminal shows."""
        self._shares = self.output.shared
        self.output.write(text)

    def say(self, line: str) -> None:
        """Write a line to stderr, unless quiet."""
        self._spoke = self.progress.clock()
        self.output.status(line)

    def __enter__(self) -> View:
        return self

    def __exit__(self, kind: object, *error: object) -> None:
        """Say what the source lacks, and what was done. After an error, no view says that it is done."""
        summary = self.progress.summary
        if summary is not None and (line := format_unsupported(summary.unsupported)):
            self.output.warn(line)
        if summary is not None and kind is None:
            done = Text(sanitize(format_done(summary, self.document if self.position else "")), style=QUIET)
            done.stylize(GOOD, 0, len("done"))
            self.output.status(done)


class Panel(View):
    """Draws the state of a run on stderr until it is closed. `raw` results are for programs: they are not wrapped."""

    def __init__(self, output: Output, document: str, position: str = "", *, raw: bool = False) -> None:
        super().__init__(output, document, position)
        self._raw = raw
        self._lock = threading.Lock()
        self._tail = ""  # the unfinished line of the summary
        self._wrote = False
        self._warnings: list[str] = []
        self._live = Live(
            console=output.console,
            get_renderable=self._draw,
            redirect_stdout=False,
            redirect_stderr=False,
            transient=True,
            refresh_per_second=8,
            vertical_overflow="crop",
        )

    def _draw(self) -> Frame:
        with self._lock:
            return draw(self.title, self.progress, self._tail, self.output.console)

    def add(self, event: Event) -> None:
        """Take one event; the next frame shows it. A warning within the summary is shown after it."""
        with self._lock:
            self.progress.add(event)
        if isinstance(event, Warned) and (self._wrote or self._tail):
            self._warnings.append(event.message)
        elif isinstance(event, Warned):
            with self._live._lock:  # else Rich might draw a frame between moving the cursor and printing
                self.output.warn(event.message)

    def say(self, line: str) -> None:
        """Write a line above the panel."""
        with self._live._lock:
            self.output.note(line)

    def write(self, text: str) -> None:
        """Write text to stdout; on a shared terminal above and in the panel, where prose is wrapped.

        Before the first text for a pipe the panel ends: it would erase what the pipe's reader prints on the terminal.
        """
        if self._raw or not self.output.shared:
            if self._raw or self.output.piped:
                self._live.stop()
            self.output.write(text)
            return
        with self._lock:
            lines, self._tail = wrap(self._tail + sanitize(text), self.output.console)
        self._print(lines)

    def _print(self, lines: list[str]) -> None:
        for line in lines:
            self._wrote = True
            with self._live._lock:
                self.output.console.print(Text(line), soft_wrap=True)

    def __enter__(self) -> Panel:
        try:
            self._live.start(refresh=True)
        except BaseException:  # ^C while the first frame is drawn: nobody else would erase it
            self._live.stop()
            raise
        return self

    def __exit__(self, kind: object, *error: object) -> None:
        self._live.stop()
        self._print([self._tail.rstrip()] if self._tail.strip() else [])
        if self._wrote:
            self.output.console.print()
        for message in self._warnings:
            self.output.warn(message)
        super().__exit__(kind, *error)


def open_view(output: Output, document: str, position: str = "", *, raw: bool = False) -> View:
    """The view for this output: see `View` and `Panel`."""
    panel = output.animated and not output.quiet
    return Panel(output, document, position, raw=raw) if panel else View(output, document, position)


def wrap(text: str, console: Console) -> tuple[list[str], str]:
    """The complete lines of `text`, broken between words, and the unfinished line."""
    width = max(min(console.width - 4, PROSE), 8)
    parts = [Text(paragraph).wrap(console, width) or [Text()] for paragraph in text.split("\n")]
    lines = [line.plain.rstrip() for part in parts for line in part]
    return lines[:-1], lines[-1] + text[len(text.rstrip(" ")) :]


def draw(title: str, progress: Progress, tail: str, console: Console) -> Frame:
    """One frame: of the rows, the most important ones for which the terminal has room."""
    width = max(min(console.width - 2, WIDTH), 1)  # room for the ^C that a terminal echoes: else it begins another line
    rows = list(_rows(progress, tail, width - 4))
    shown = sorted(rank for rank, _ in rows)[: max(console.height - _FRAME, 1)]
    return Frame(
        Text("\n", no_wrap=True, overflow="ellipsis").join(row for rank, row in rows if rank in shown),
        box=box.ROUNDED,
        width=width,
        border_style=QUIET,
        title=Text(sanitize(title), style="bold default"),
        title_align="left",
        subtitle=Text(format_clock(progress.clock() - progress.began), style=QUIET),
        subtitle_align="right",
    )


def _rows(progress: Progress, tail: str, width: int) -> Iterator[tuple[int, Text]]:
    """The rows of the panel in their order, each with its rank: 0 is the most important."""
    meter, seen = progress.meter, progress.retrieved
    if progress.stage is not None or progress.part is None:
        stage = progress.stage or Stage("starting")
        head = Text.assemble((sanitize(stage.name), "bold"), (f"  {format_stage(stage)}", QUIET))
        yield 0, _bar(head, progress.share, width)
    else:
        if progress.share is not None:
            head = _row("progress", format_percent(progress.share), format_left(progress))
            yield 1, _bar(head, progress.share, width)
        yield 0, _row(*format_task(progress))
    if progress.batch_size == 1:  # in a batch nothing is drafted
        if meter.steps:
            yield 4, _row("accepted", f"{meter.accepted_length:.2f}", _histogram(meter))
        if seen is not None and len(seen.positions) < seen.length:  # else it sees everything
            # The square root keeps sparse parts of the map visible beside dense ones.
            shares = density(seen.positions.tolist(), seen.length, max(width - _LABEL - _VALUE, 1))
            cells = "".join(block(share**0.5) if share else " " for share in shares)
            yield 5, _row("retrieved", "", Text(cells, style=ACCENT))
    if progress.speed:
        yield 3, _speed(progress)
    if line := (tail or progress.text).strip("\n").rsplit("\n", 1)[-1]:
        yield 2, Text(_end(line, width), style="" if tail else f"italic {QUIET}")


def _histogram(meter: Meter) -> str:
    """The distribution of accepted lengths."""
    bins = histogram(meter.accepted_lengths)
    peak = max(share for _, share in bins) or 1.0
    return " ".join(f"{size}{block(share / peak) if share else ' '}" for size, share in bins)


def _speed(progress: Progress) -> Text:
    speed, speedup = progress.speed, progress.meter.speedup
    shown = f"{speed:.1f}" if speed < 100 else format_count(speed)
    if progress.batch_size > 1:
        return _row("speed", shown, f"tok/s, {progress.batch_size} texts together")
    if speedup is not None and is_slower(speedup):
        hint = f"tok/s · {format_speedup(speedup)} plain · --draft none is faster here"
        return _row("speed", shown, Text(hint, style=AMBER))
    return _row("speed", shown, " · ".join(("tok/s", *format_drafts(progress.meter))))


def _row(label: str, value: str, detail: str | Text) -> Text:
    return Text.assemble((label.ljust(_LABEL), QUIET), (f"{value} ".ljust(_VALUE), "bold"), detail)


def _bar(head: Text, share: float | None, width: int) -> Text:
    """`head` and, in the rest of the line, a bar that is `share` full, if known."""
    room = width - max(head.cell_len + 3, _LABEL + _VALUE + _DETAIL)
    if share is None or room < 8:
        return head
    full = round(share * room)
    head.pad_right(width - room - head.cell_len)
    return head.append("━" * full, style=ACCENT).append("─" * (room - full), style=QUIET)


def _end(line: str, width: int) -> str:
    """The last words of a line that fit into `width` columns."""
    if cell_len(line) <= width:
        return line
    while cell_len(line) > max(width - 2, 0):
        line = line.partition(" ")[2] or line[1:]
    return f"… {line.lstrip()}"
