"""The live panel on stderr: what it shows row by row (`Dashboard`), when (`Panel`), and the line that replaces it.

If stdout is the same terminal, text passed to `write` appears above the panel line by line, and the unfinished line
inside it. Complete lines leave the live area, so the summary may have any length. The state of the run and the wording
that plain lines share are in `progress`; how a frame is drawn and erased is in `live`.
"""

from __future__ import annotations

import sys
import threading
from contextlib import ExitStack
from dataclasses import dataclass

import psutil
from rich import box
from rich.cells import cell_len, set_cell_size
from rich.console import Console, ConsoleOptions, RenderResult
from rich.panel import Panel as Frame
from rich.text import Text

from specextend_cli.engine.events import Retrieved
from specextend_cli.humanize import format_bytes, format_clock, format_count, format_percent, format_speedup, is_slower
from specextend_cli.summarize.events import Event, Preview, Warned
from specextend_cli.ui.live import Lines, ReflowingLive, fold
from specextend_cli.ui.progress import (
    TAIL,
    Progress,
    View,
    format_doing,
    format_done,
    format_left,
    format_stage,
    format_task,
)
from specextend_cli.ui.streams import ACCENT, AMBER, GOOD, QUIET, WARNED, Output, sanitize, warning
from specextend_cli.ui.tables import block, density, histogram
from specextend_cli.ui.terminal import clean_terminal

LABEL = 10
VALUE = 8
DETAIL = 30  # cells of text before a bar, so that bars start in one column
COMPACT = 56  # cells inside the frame; narrower panels show less
MAX_WIDTH = 80  # cells
SHORT, LOW = 12, 6  # terminal rows below which the panel has three lines, or one
_TEXT = 3  # lines of the text of a batch, in which nothing is drafted and rows are free
_BELOW = 2  # terminal rows that the first extract leaves free below the panel: the cursor's, and one for a fold
_LABELS = {"chunks": "chunks", "chunk summaries": "chunks", "merged summaries": "merging", "summary": "summary"}
PROSE = 96  # cells; longer lines are hard to read


class Panel(View):
    """Draws the state of a run on stderr until it is closed."""

    def __init__(self, output: Output, document: str, *, raw: bool = False, many: bool = False) -> None:
        super().__init__(output, document)
        self._many = many
        self._lines = Lines()
        self._raw = raw
        self._lock = threading.Lock()
        self._wrote = False
        self._warnings: list[Text] = []
        self._held = ExitStack()
        self._live = ReflowingLive(
            console=output.console,
            get_renderable=lambda: Dashboard(self.progress, self._lines.tail, format_memory(), self._lock),
            redirect_stdout=False,
            redirect_stderr=False,
            transient=True,
            refresh_per_second=8,
            vertical_overflow="crop",
        )

    def add(self, event: Event) -> None:
        """Take one event; the next frame shows it."""
        with self._lock:
            self.progress.add(event)
        if isinstance(event, Warned):
            self._beside(warning(event.message))
        elif isinstance(event, Preview):
            self._live.refresh()  # now: what follows imports torch, which may leave other threads no time

    def write(self, text: str) -> None:
        """Write text to stdout; on a shared terminal above and in the panel, where prose is wrapped, `raw` text not.

        Before the first text for a pipe the panel ends: it would erase what the pipe's reader prints on the terminal.
        """
        if not self.output.shared:
            if self.output.piped:
                self._live.stop()
            super().write(text)
            return
        with self._lock:
            width = sys.maxsize if self._raw else max(min(self.output.console.width - 4, PROSE), 8)
            lines = self._lines.feed(sanitize(text), width)
        self._print(lines)

    def __enter__(self) -> Panel:
        self._held.enter_context(clean_terminal(self.output, self._foreign))
        try:
            self._live.start(refresh=True)
        except BaseException:  # ^C while the first frame is drawn: nobody else would erase it
            self._live.stop()
            self._held.close()
            raise
        return self

    def __exit__(self, kind: object, *error: object) -> None:
        with self._lock:
            lines = self._lines.close()
        self._live.stop()
        self._held.close()
        self._print(lines)
        if self._wrote:
            self.output.console.print()
        for message in self._warnings:
            self.output.note(message, indent=WARNED)
        super().__exit__(kind, *error)
        if self.progress.summary is not None and kind is None:
            # Of several, the panel named the document and is gone; text on the terminal has a heading.
            named = self._many and not self._wrote
            self.output.console.print(collapsed(self.progress, sanitize(self.progress.document) if named else ""))

    def _print(self, lines: list[str]) -> None:
        for line in lines:
            self._wrote = True
            with self._live.still:
                self.output.console.print(Text(line), soft_wrap=True)

    def _foreign(self, line: str) -> None:
        self._beside(Text(sanitize(line), style=QUIET))

    def _beside(self, message: Text) -> None:
        # A warning within the summary would read as part of it, so it is shown at the end.
        if self._wrote or self._lines.tail:
            self._warnings.append(message)
        else:
            with self._live.still:
                self.output.note(message, indent=WARNED)


def format_memory() -> str:
    """The memory of this process, "1.3 GB + 4.0 GB gpu". Asks torch only if it is imported already."""
    main = format_bytes(psutil.Process().memory_info().rss)
    # Called from the panel's thread, perhaps during `import torch`, which defines `cuda` late.
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    used = cuda.memory_reserved() if cuda is not None and cuda.is_initialized() else 0
    return f"{main} + {format_bytes(used)} gpu" if used else main


@dataclass
class Dashboard:
    """One frame of the panel."""

    progress: Progress
    tail: str
    memory: str
    lock: threading.Lock
    plain: bool = False  # whether there are no colours, so that characters must tell the difference

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        # The margin keeps the frame from being folded while the terminal gets narrower: folded rows cannot be erased.
        outer = min(options.max_width - options.max_width // 20, MAX_WIDTH)
        width = max(outer - 4, 1)
        self.plain = options.ascii_only or console.no_color or console.color_system is None
        with self.lock:
            height = options.size.height
            framed = height >= SHORT
            if height < LOW:
                rows = [self._activity(outer)]
            else:
                rows = self.rows(width) if framed else self.brief(outer)
                rows += self._preview(width if framed else outer, height - len(rows) - _BELOW - 2 * framed)
        if not framed:
            yield from rows
            return
        clock = format_clock(self.progress.seconds)
        yield Frame(
            Text("\n").join(rows),
            box=box.ROUNDED,
            width=outer,
            border_style=QUIET,
            title=_clip(Text(sanitize(self.progress.document), style="bold default"), width - 4),
            title_align="left",
            subtitle=Text(f"memory {self.memory} · {clock}" if width >= 32 else clock, style=QUIET),
            subtitle_align="right",
        )

    def rows(self, width: int) -> list[Text]:
        """The lines of the panel, at most `width` cells each."""
        progress = self.progress
        rows = [row for row in (self._progress(width), self._activity(width)) if row is not None]
        if progress.meter.steps and progress.batch_size == 1:  # in a batch nothing is drafted
            rows.append(self._accepted(width))
        if progress.speed:
            rows.append(self._speed(width))
        seen = progress.retrieved if progress.batch_size == 1 else None
        if seen is not None and sum(end - start for start, end in seen.spans) < seen.length:  # else it sees everything
            rows.insert(-1, self._sees(seen, width))
        text, style = self.tail or progress.tail or progress.answer, "" if self.tail else f"italic {QUIET}"
        if progress.batch_size > 1 and not self.tail:
            rows += _end(text, width, style)
        elif line := text.rsplit("\n", 1)[-1]:
            rows.append(_tail(line, width, style))
        return rows

    def brief(self, width: int) -> list[Text]:
        """Three lines: progress, current activity, and the latest words or the speed."""
        progress = self.progress
        title = Text(sanitize(progress.document), style="bold default")
        rows = [self._progress(width) or _clip(title, width), self._activity(width)]
        if self.tail:
            rows.append(_tail(self.tail.rsplit("\n", 1)[-1], width, ""))
        elif progress.speed:
            rows.append(self._speed(width))
        return rows

    def _preview(self, width: int, room: int) -> list[Text]:
        """The first extract under a line that says what it is, in at most `room` lines; [] after it."""
        text = self.progress.preview
        if not text or room < 2:
            return []
        begun = text[: (room + 1) * width]  # folds to more lines than are shown, where it is not all
        lines = [line.rstrip() for part in begun.split("\n") if part.strip() for line in fold(part.strip(), width)]
        shown = lines[: room - 1]
        if len(lines) > len(shown):
            shown[-1] = set_cell_size(shown[-1], min(cell_len(shown[-1]), width - 2)).rstrip() + " …"
        label = _clip(Text("first extract, while the model reads:", style=QUIET), width)
        return [label, *(Text(line, style="dim") for line in shown)]

    def _activity(self, width: int) -> Text:
        """The current activity."""
        progress = self.progress
        if progress.stage is not None:
            head = Text.assemble((sanitize(progress.stage.name), "bold"))
            if detail := format_stage(progress.stage):
                head.append(f"  {detail}", style=QUIET)
            return _gauge(head, progress.share, width, self.plain)
        if progress.part is None:
            return Text("starting", style="bold")
        task, count = format_task(progress)
        return _row(_LABELS[task], count, Text(format_doing(progress)), width)

    def _progress(self, width: int) -> Text | None:
        """Share of the run that is done and time left; None while unknown."""
        progress, share = self.progress, self.progress.estimate.share
        if progress.part is None or progress.stage is not None or share is None:
            return None
        return _row("progress", format_percent(share), Text(format_left(progress)), width, share, plain=self.plain)

    def _accepted(self, width: int) -> Text:
        """Mean accepted length, its distribution, and the latest steps."""
        text = Text()
        wide = width >= 64
        bins = histogram(self.progress.meter.accepted_lengths)
        peak = max(share for _, share in bins) or 1.0
        for size, share in bins:
            text.append(f"{' ' if text else ''}{size}", style=QUIET)
            drawn = block(share / peak) if share else self._nothing
            text.append(drawn * (2 if wide else 1), style=ACCENT if share else QUIET)
        room = width - LABEL - VALUE - text.cell_len - 4
        if room >= 12:
            text.append("  │ ", style=QUIET)
            for length in list(self.progress.recent)[-room:]:
                text.append(block((length - 1) / 6), style=QUIET if length == 1 else ACCENT)
        return _row("accepted", f"{self.progress.meter.accepted_length:.2f}", text, width)

    @property
    def _nothing(self) -> str:
        """An empty place in a chart, which without colours must not look like a low bar."""
        return " " if self.plain else "▁"

    def _sees(self, retrieved: Retrieved, width: int) -> Text:
        """The positions in the text that the drafter attends to."""
        text = Text()
        for share in density(retrieved.spans, retrieved.length, max(width - LABEL - VALUE, 1)):
            # The square root keeps sparse parts of the map visible beside dense ones.
            text.append(block(share**0.5) if share else self._nothing, style=ACCENT if share else QUIET)
        return _row("sees", "", text, width)

    def _speed(self, width: int) -> Text:
        meter, speed = self.progress.meter, self.progress.speed
        shown = f"{speed:.1f}" if speed < 100 else format_count(round(speed))
        if self.progress.batch_size > 1:
            return _row("speed", shown, Text(f"tok/s, {self.progress.batch_size} texts together"), width)
        text = Text("tok/s")
        speedup = meter.speedup
        if speedup is not None:
            text.append(" · ", style=QUIET)
            text.append(f"{format_speedup(speedup)} plain", style=AMBER if is_slower(speedup) else GOOD)
            if is_slower(speedup) and width >= COMPACT:
                text.append("  --no-spec is faster here", style=AMBER)
        if meter.hit is not None:
            text.append(f" · hits {format_percent(meter.hit)}", style=QUIET)
        return _row("speed", shown, text, width)


def collapsed(progress: Progress, document: str = "") -> Text:
    """The final line that replaces the panel; with the name of the `document`, if one is given."""
    summary = progress.summary
    assert summary is not None
    line = Text(" · ".join(filter(None, ("done", document, format_done(summary, progress.read)))), style=QUIET)
    line.stylize(GOOD, 0, len("done"))
    speedup = summary.meter.speedup
    if speedup is not None and is_slower(speedup):
        line.highlight_words([f"{format_speedup(speedup)} plain"], style=AMBER)
    return line


def _row(label: str, value: str, content: Text, width: int, share: float | None = None, *, plain: bool = False) -> Text:
    """One line: a quiet label, a bold value, an explanation and, with `share`, a bar to the margin."""
    compact = width < COMPACT
    head = Text.assemble((label.ljust(LABEL - compact), QUIET), (value.ljust(VALUE - 2 * compact), "bold"))
    return _gauge(head.append(content), share, width, plain)


def _gauge(head: Text, share: float | None, width: int, plain: bool) -> Text:
    """`head` and, in the rest of the line, a bar that is `share` full, if known; the empty part is thin if `plain`."""
    room = width - max(head.cell_len + 3, LABEL + VALUE + DETAIL)
    if share is None or room < 8:
        return _clip(head, width)
    full = round(share * room)
    head.pad_right(width - room - head.cell_len)
    head.append("━" * full, style=ACCENT)
    return head.append(("─" if plain else "━") * (room - full), style=QUIET)


def _clip(text: Text, width: int) -> Text:
    text.truncate(max(width, 1), overflow="ellipsis")
    return text


def _end(text: str, width: int, style: str) -> list[Text]:
    """The last lines of `text`, folded."""
    lines = [line.rstrip() for line in fold(" ".join(text.split()), width - 2) if line.strip()]
    shown = lines[-_TEXT:]
    if shown and (len(lines) > len(shown) or len(text) >= TAIL):
        shown[0] = f"… {shown[0]}"
    return [Text(line, style=style) for line in shown]


def _tail(text: str, width: int, style: str) -> Text:
    """The end of `text`, as many words as fit."""
    if cell_len(text) > width:
        while cell_len(text) > width - 2:
            text = text.split(" ", 1)[1] if " " in text else text[1:]
        text = f"… {text}"
    return Text(text, style=style)
