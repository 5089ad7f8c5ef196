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
from collections.abc import Callable
from types import TracebackType

from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.control import Control
from rich.live import Live
from rich.panel import Panel as Frame
from rich.segment import ControlType
from rich.text import Text

from specextend_cli.summarize.events import Event, Warned
from specextend_cli.ui import keys
from specextend_cli.ui.figures import (
    block,
    density,
    format_clock,
    format_count,
    format_pages,
    format_percent,
    format_speedup,
    histogram,
    is_slower,
)
from specextend_cli.ui.memory import Memory, memory
from specextend_cli.ui.progress import Progress, format_done, format_prefill, format_stage
from specextend_cli.ui.streams import Output, sanitize
from specextend_cli.ui.wrap import Lines

ACCENT = "cyan"
QUIET = "bright_black"
AMBER = "yellow"
GOOD = "green"
LABEL = 10
VALUE = 8
BESIDE = 30  # cells of explanation before a bar: bars in different rows start at one column
PROSE = 96  # cells; longer lines are hard to read
COMPACT = 56  # cells inside the frame; below, only what matters most is said
SHORT = 12  # rows; a terminal this low keeps only the line that moves


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
        self._warnings: list[str] = []
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
            self._warn(event.message)

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
        self._print(lines)
        if self._wrote:
            self.output.console.print()
        for message in self._warnings:
            self.output.warn(message)
        if self.progress.summary is not None:
            self.output.console.print(collapsed(self.progress))

    @property
    def _width(self) -> int:
        if self._raw:
            return sys.maxsize
        return max(min(self.output.console.width - 4, PROSE), 8)

    def _print(self, lines: list[str]) -> None:
        for line in lines:
            self._wrote = True
            self.output.console.print(Text(line), soft_wrap=True)

    def _warn(self, message: str) -> None:
        # A warning in the middle of the summary would read as part of it: it waits until the end.
        if self._wrote or self._lines.tail:
            self._warnings.append(message)
        else:
            self.output.warn(message)


class Dashboard:
    """One frame of the panel."""

    def __init__(self, progress: Progress, tail: str, used: Memory, lock: threading.Lock) -> None:
        self.progress = progress
        self.tail = tail
        self.used = used
        self.lock = lock

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = max(options.max_width - 4, 1)
        with self.lock:
            rows = [self._activity(width)] if options.size.height < SHORT else self.rows(width)
        if options.size.height < SHORT:
            yield from rows
            return
        clock = format_clock(self.progress.seconds)
        yield Frame(
            Text("\n").join(rows),
            box=box.ROUNDED,
            border_style=QUIET,
            title=_clip(Text(sanitize(self.progress.document), style="bold default"), width - 4),
            title_align="left",
            subtitle=Text(f"memory {self.used} · {clock}" if width >= 32 else clock, style=QUIET),
            subtitle_align="right",
        )

    def rows(self, width: int) -> list[Text]:
        """The panel's lines; `width` cells each at most."""
        progress = self.progress
        rows = [self._activity(width)]
        if progress.part is not None:
            rows.insert(0, self._part(width))
        if progress.meter.steps:
            rows += [self._accepted(width), self._speed(width)]
        if progress.retrieved is not None:
            rows.insert(-1, self._hits(width))
        text = (self.tail or progress.tail).rsplit("\n", 1)[-1]
        if text:
            rows.append(_tail(text, width, "" if self.tail else f"italic {QUIET}"))
        return rows

    def _activity(self, width: int) -> Text:
        """What is going on this moment."""
        progress = self.progress
        share = progress.share
        value = "" if share is None else format_percent(share)
        if progress.stage is not None:
            head = Text.assemble((sanitize(progress.stage.name), "bold"))
            detail = format_stage(progress.stage)
            if detail:
                head.append(f"  {detail}", style=QUIET)
            return _gauge(head, share, width)
        if progress.prefilling is not None:
            return _row("prefill", value, Text(format_prefill(progress, brief=width < COMPACT)), width, share)
        if progress.part is not None:
            tokens = Text(f"{'token' if progress.part_tokens == 1 else 'tokens'}")
            tokens.append(" of the summary" if progress.part.final else " of a note", style=QUIET)
            return _row("writing", format_count(progress.part_tokens), tokens, width)
        return Text("starting", style="bold")

    def _part(self, width: int) -> Text:
        part = self.progress.part
        assert part is not None
        text = Text(format_pages(*part.pages))
        if part.levels > 1:
            text.append(f" · level {part.level}{'/' if width < COMPACT else ' of '}{part.levels}", style=QUIET)
        if part.parts == 1 and width >= COMPACT:
            text.append(f" · {format_count(part.tokens)} tokens", style=QUIET)
        if part.parts == 1:
            return _row("reading", "", text, width)
        return _row("part", f"{part.number}/{part.parts}", text, width, (part.number - 1) / part.parts)

    def _accepted(self, width: int) -> Text:
        """Mean accepted length, its distribution, and the latest steps."""
        text = Text()
        wide = width >= 64
        bins = histogram(self.progress.meter.accepted_lengths)
        peak = max(share for _, share in bins) or 1.0
        for size, share in bins:
            text.append(f"{' ' if text else ''}{size}", style=QUIET)
            if share:
                text.append(block(share / peak) * (2 if wide else 1), style=ACCENT)
            else:
                text.append("▁" * (2 if wide else 1), style=QUIET)
        room = width - LABEL - VALUE - text.cell_len - 4
        if room >= 12:
            text.append("  │ ", style=QUIET)
            for length in list(self.progress.recent)[-room:]:
                text.append(block((length - 1) / 6), style=QUIET if length == 1 else ACCENT)
        return _row("accepted", f"{self.progress.meter.accepted_length:.2f}", text, width)

    def _hits(self, width: int) -> Text:
        """How much of the target's attention the drafter's working set holds, and where in the text that set lies."""
        retrieved = self.progress.retrieved
        assert retrieved is not None
        hit = self.progress.meter.hit
        text = Text()
        for share in density(retrieved.spans, retrieved.length, max(width - LABEL - VALUE, 1)):
            # The square root keeps sparse parts of the map visible beside dense ones.
            text.append(block(share**0.5) if share else "▁", style=ACCENT if share else QUIET)
        return _row("hits", "" if hit is None else format_percent(hit), text, width)

    def _speed(self, width: int) -> Text:
        meter = self.progress.meter
        text = Text("tok/s")
        speedup = meter.speedup
        if speedup is not None:
            text.append(" · ", style=QUIET)
            text.append(f"{format_speedup(speedup)} plain", style=AMBER if is_slower(speedup) else GOOD)
            if is_slower(speedup) and width >= COMPACT:
                text.append("  --no-spec is faster here", style=AMBER)
        speed = meter.tokens_per_second
        return _row("speed", f"{speed:.1f}" if speed < 100 else format_count(speed), text, width)


def collapsed(progress: Progress) -> Text:
    """What remains of the panel: one line."""
    summary = progress.summary
    assert summary is not None
    line = Text(f"done · {format_done(summary, progress.read)}", style=QUIET)
    line.stylize(GOOD, 0, len("done"))
    speedup = summary.meter.speedup
    if speedup is not None and is_slower(speedup):
        line.highlight_words([f"{format_speedup(speedup)} plain"], style=AMBER)
    return line


def _row(label: str, value: str, content: Text, width: int, share: float | None = None) -> Text:
    """One line of the panel: a quiet label, a bold value, what explains it and, with `share`, a bar to the margin."""
    compact = width < COMPACT
    head = Text.assemble((label.ljust(LABEL - compact), QUIET), (value.ljust(VALUE - 2 * compact), "bold"))
    head.append(content)
    return _clip(head, width) if share is None else _gauge(head, share, width)


def _gauge(head: Text, share: float | None, width: int) -> Text:
    """`head` and, in what is left of the line, a bar that is `share` full."""
    room = width - max(head.cell_len + 3, LABEL + VALUE + BESIDE)
    if share is None or room < 8:
        return _clip(head, width)
    full = round(share * room)
    head.pad_right(width - room - head.cell_len)
    head.append("━" * full, style=ACCENT)
    return head.append("━" * (room - full), style=QUIET)


def _clip(text: Text, width: int) -> Text:
    text.truncate(max(width, 1), overflow="ellipsis")
    return text


def _tail(text: str, width: int, style: str) -> Text:
    """The end of `text`, as many words as fit."""
    if cell_len(text) > width:
        while cell_len(text) > width - 2:
            text = text.split(" ", 1)[1] if " " in text else text[1:]
        text = f"… {text}"
    return Text(text, style=style)


class _Live(Live):
    """Rich's Live, made to survive a terminal that becomes narrower and folds the frame it shows."""

    _width = 0

    def refresh(self) -> None:
        with self._lock:
            width = self.console.width
            if self._width > width and self.is_started and _reflows():
                rows = self._live_render.last_render_height
                folded = rows * (-(-self._width // width) - 1)
                self.console.control(
                    Control(
                        ControlType.CARRIAGE_RETURN,
                        (ControlType.ERASE_IN_LINE, 2),
                        *((ControlType.CURSOR_UP, 1), (ControlType.ERASE_IN_LINE, 2)) * folded,
                    )
                )
            self._width = width
            super().refresh()


def _reflows() -> bool:
    """Whether the terminal folds lines that no longer fit; the ones known not to are xterm and the Linux console."""
    return "XTERM_VERSION" not in os.environ and os.environ.get("TERM") != "linux"
